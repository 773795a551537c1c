// Traces that hold what a profiler rarely writes: each once read with a number that nobody
// measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/analysis/compare.h"
#include "common/analysis/compare_rows.h"
#include "common/analysis/fail_on.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/verdict.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Event(const char* category, const std::string& name, int thread, int start_us,
                  const std::string& rest) {
  return absl::StrCat("{\"ph\":\"X\",\"cat\":\"", category, "\",\"name\":\"", name,
                      "\",\"pid\":1,\"tid\":", thread, ",\"ts\":", start_us, rest, "}");
}
std::string Span(const char* category, const std::string& name, int thread, int start_us,
                 int length_us) {
  return Event(category, name, thread, start_us, absl::StrCat(",\"dur\":", length_us));
}
std::string Launch(int start_us, int id) {
  return Event("cuda_runtime", "cudaLaunchKernel", 1, start_us,
               absl::StrCat(",\"dur\":5,\"args\":{\"correlation\":", id, "}"));
}
std::string Kernel(int start_us, const std::string& length, int id) {
  return Event(
      "kernel", "gemm", 7, start_us,
      absl::StrCat(length, ",\"args\":{\"device\":0,\"stream\":7,\"correlation\":", id, "}"));
}

absl::StatusOr<Profile> Read(const std::vector<std::string>& events) {
  return LoadProfileFromBytes(absl::StrCat("{\"traceEvents\":[", absl::StrJoin(events, ","), "]}"),
                              "", {});
}

std::vector<std::string> Codes(const Profile& profile) {
  std::vector<std::string> codes;
  for (const job::Finding& finding : profile.findings) codes.push_back(finding.code);
  return codes;
}

const PhaseRow* Find(const Profile& profile, const std::string& phase) {
  const auto row = std::find_if(profile.phases.begin(), profile.phases.end(),
                                [&](const PhaseRow& one) { return one.phase == phase; });
  return row == profile.phases.end() ? nullptr : &*row;
}

TEST(OddTracesTest, ALoaderOnAThreadOfItsOwnHoldsNobodyUp) {
  const auto read = [](int loader_thread) {
    return Read(
        {Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000),
         Span("user_annotation", "step/forward", 1, 1000, 900),
         Span("user_annotation", "enumerate(DataLoader)#A.__next__", loader_thread, 1000, 700),
         Launch(1010, 1), Kernel(1100, ",\"dur\":500", 1)});
  };
  ASSERT_OK_AND_ASSIGN(const Profile apart, read(99));
  EXPECT_FALSE(apart.dataload_ms.has_value()) << *apart.dataload_ms;
  EXPECT_EQ(Find(apart, "dataload"), nullptr);
  ASSERT_NE(Find(apart, "forward"), nullptr);
  EXPECT_EQ(Find(apart, "forward")->kernels_per_step, 1);
  EXPECT_EQ(Find(apart, "forward")->gpu_ms_per_step, 0.5);
  ASSERT_OK_AND_ASSIGN(const Profile same, read(1));
  EXPECT_EQ(same.dataload_ms, 0.7);
}

TEST(OddTracesTest, KernelsWithoutLengthAreTold) {
  for (const char* length : {"", ",\"dur\":0"}) {
    ASSERT_OK_AND_ASSIGN(
        const Profile profile,
        Read({Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000), Launch(1010, 1),
              Kernel(1100, ",\"dur\":300", 1), Launch(1020, 2), Kernel(1400, length, 2)}));
    EXPECT_THAT(Codes(profile), Contains("KERNELS_WITHOUT_LENGTH"));
    EXPECT_EQ(profile.validity, Validity::kSuspect) << "half of them";
  }
}

TEST(OddTracesTest, AMarkerWithoutLengthIsNoStep) {
  const auto read = [](const std::string& last) {
    return Read({Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000),
                 Event("user_annotation", "ProfilerStep#2", 1, 2000, last), Launch(1010, 1),
                 Kernel(1100, ",\"dur\":300", 1), Launch(2010, 2),
                 Kernel(2100, ",\"dur\":300", 2)});
  };
  ASSERT_OK_AND_ASSIGN(const Profile whole, read(",\"dur\":1000"));
  EXPECT_EQ(whole.step_ms, 1.0);
  EXPECT_THAT(Codes(whole), Not(Contains("STEP_MARKERS_WITHOUT_LENGTH")));
  for (const char* last : {"", ",\"dur\":0"}) {
    ASSERT_OK_AND_ASSIGN(const Profile cut, read(last));
    EXPECT_EQ(cut.step_ms, 1.0);
    EXPECT_EQ(cut.kernels_per_step, 1);
    EXPECT_THAT(Codes(cut), Contains("STEP_MARKERS_WITHOUT_LENGTH"));
  }
}

TEST(OddTracesTest, WithoutStepsNothingIsNewOrGone) {
  const std::vector<std::string> work = {Launch(1010, 1), Kernel(1100, ",\"dur\":300", 1)};
  ASSERT_OK_AND_ASSIGN(const Profile blind, Read(work));
  std::vector<std::string> marked = work;
  marked.push_back(Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000));
  ASSERT_OK_AND_ASSIGN(const Profile seeing, Read(marked));
  EXPECT_THAT(KernelChanges(blind, seeing), IsEmpty());
  EXPECT_THAT(KernelChanges(seeing, blind), IsEmpty());
  EXPECT_THAT(blind.bound_why, HasSubstr("of the recording"));
  EXPECT_THAT(blind.bound_why, Not(HasSubstr("0.0 kernels")));
}

TEST(OddTracesTest, OneProfileOnBothSidesHasTwoSides) {
  ASSERT_OK_AND_ASSIGN(
      const Profile profile,
      Read({Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000), Launch(1010, 1)}));
  const auto refused = Compare(profile, profile, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("the second profile's GPU"));
}

TEST(OddTracesTest, APipeIsNoFile) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/pipe_", getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto read = LoadProfile(path, {});  // nobody writes: it must not wait
  EXPECT_THAT(read, FailsWith(reason::kTraceUnparsable));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("a pipe"));
  unlink(path.c_str());
}

TEST(OddTracesTest, LimitsAreDecimal) {
  EXPECT_OK(ParseFailCondition("img_per_s<-5%").status());
  EXPECT_OK(ParseFailCondition("img_per_s<1.5e3").status());
  for (const char* wrong : {"img_per_s<0x10", "img_per_s<inf", "img_per_s<nan", "img_per_s<"}) {
    EXPECT_FALSE(ParseFailCondition(wrong).ok()) << wrong;
  }
}

TEST(OddTracesTest, CopiesAloneAreGpuWork) {
  std::vector<std::string> events = {Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000),
                                     Event("gpu_memcpy", "Memcpy HtoD", 7, 1100,
                                           ",\"dur\":300,\"args\":{\"device\":0,\"stream\":7}")};
  ASSERT_OK_AND_ASSIGN(const Profile profile, Read(events));
  EXPECT_EQ(profile.gpu, GpuState::kRecorded);
  EXPECT_EQ(profile.memcpy_ms_per_step, 0.3);
  EXPECT_EQ(profile.gpu_util, 0.0);
  EXPECT_THAT(profile.bound_why, HasSubstr("no kernel, only 1 copies"));
}

TEST(OddTracesTest, APhaseWithoutStepsHasItsTotals) {
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       Read({Span("user_annotation", "step/forward", 1, 1000, 900), Launch(1010, 1),
                             Kernel(1100, ",\"dur\":500", 1)}));
  const PhaseRow* forward = Find(profile, "forward");
  ASSERT_NE(forward, nullptr);
  EXPECT_FALSE(forward->gpu_ms_per_step.has_value());
  EXPECT_EQ(forward->recording_gpu_ns, 500'000);
  EXPECT_EQ(forward->recording_kernels, 1);
  EXPECT_EQ(forward->recording_ops, 0);
}

TEST(OddTracesTest, ASharesWordsAndNumberAgree) {
  // 454.5 us of 1 ms: the profile states 0.455 (or 0.454), and the sentence rounds that.
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       Read({Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000),
                             Launch(1010, 1), Kernel(1100, ",\"dur\":454.5", 1)}));
  EXPECT_THAT(profile.bound_why,
              HasSubstr(absl::StrFormat("busy only %.0f %%", *profile.gpu_util * 100)));
}

TEST(OddTracesTest, AnInferenceTraceAloneNamesItsStage) {
  const auto read = [](const std::string& last) {
    return Read({Span("user_annotation", "ProfilerStep#1", 1, 1000, 1000),
                 Span("user_annotation", "step/forward", 1, 1000, 300),
                 Span("user_annotation", "step/" + last, 1, 1300, 600), Launch(1010, 1),
                 Kernel(1100, ",\"dur\":200", 1)});
  };
  ASSERT_OK_AND_ASSIGN(const Profile inference, read("postprocess"));
  EXPECT_EQ(inference.bound, kBoundPostprocess);
  ASSERT_OK_AND_ASSIGN(const Profile training, read("backward"));
  EXPECT_EQ(training.bound, kBoundHost);
}

}  // namespace
}  // namespace libreyolo::analysis
