// Traces of several ranks in one file: each process counts its calls, steps and phases by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/trace_figures.h"
#include "common/trace/trace_reader.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

struct Rank {
  int pid = 100;
  int device_pid = 0;
  int device = 0;
  double late_us = 0;             // behind the first rank
  const char* kernel = "gemm_a";  // whose name tells whose kernel it is
};

std::string Event(const char* category, const std::string& name, int pid, int tid, double ts,
                  double dur, const std::string& args = "{}") {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name, R"(","pid":)", pid,
                      R"(,"tid":)", tid, R"(,"ts":)", ts, ",\"dur\":", dur, ",\"args\":", args,
                      "}");
}

// Three steps of 1000 us: a launch in forward (100 to 300) and one in backward (400 to 600), whose
// kernels run for 150 and 250 us, 20 us after the launch.
void AddRank(const Rank& rank, std::vector<std::string>& events) {
  int correlation = 1;
  for (int step = 0; step < 3; ++step) {
    const double at = 1000 + 1000 * step + rank.late_us;
    events.push_back(
        Event("user_annotation", absl::StrCat("ProfilerStep#", step), rank.pid, 1, at, 1000));
    events.push_back(Event("user_annotation", "step/forward", rank.pid, 1, at + 100, 200));
    events.push_back(Event("user_annotation", "step/backward", rank.pid, 1, at + 400, 200));
    for (const double launch : {at + 150.0, at + 450.0}) {
      const bool forward = launch < at + 300;
      const std::string args = absl::StrCat(R"({"stream":7,"device":)", rank.device,
                                            ",\"correlation\":", correlation, "}");
      events.push_back(Event("cuda_runtime", "cudaLaunchKernel", rank.pid, 1, launch, 5,
                             absl::StrCat("{\"correlation\":", correlation, "}")));
      events.push_back(Event("kernel", absl::StrCat(rank.kernel, forward ? "_fwd" : "_bwd"),
                             rank.device_pid, 7, launch + 20, forward ? 150 : 250, args));
      ++correlation;
    }
  }
}

absl::StatusOr<TraceFigures> Figures(const std::vector<Rank>& ranks) {
  std::vector<std::string> events;
  for (const Rank& rank : ranks) AddRank(rank, events);
  LY_ASSIGN_OR_RETURN(const trace::RecordedTrace trace,
                      trace::ParseTrace(absl::StrCat("[", absl::StrJoin(events, ","), "]")));
  FigureOptions options;
  options.window = WindowRange{0, std::nullopt};
  return ComputeFigures(trace, options);
}

int64_t KernelsIn(const TraceFigures& figures, const std::string& phase) {
  for (const PhaseFigures& row : figures.phases) {
    if (row.name == phase) return row.kernel_count;
  }
  return 0;
}

class MergedRanksTest : public ::testing::TestWithParam<double> {};

// The second rank is as much behind as the parameter says: by 300 us its forward runs in the
// first's backward, where times alone, or ids alone, would attribute everything wrongly.
TEST_P(MergedRanksTest, KeepsRanksApart) {
  const std::vector<Rank> ranks = {{100, 0, 0, 0, "gemm_a"}, {200, 1, 1, GetParam(), "gemm_b"}};
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, Figures(ranks));
  EXPECT_EQ(figures.process_count, 2);
  EXPECT_EQ(figures.main_process, "100");
  EXPECT_EQ(figures.steps, 3) << "not one for each rank's marker";
  ASSERT_EQ(figures.devices.size(), 2u);
  EXPECT_EQ(figures.completeness.by_launch, figures.completeness.kernels);
  EXPECT_EQ(figures.completeness.launches_without_kernel, 0);
  EXPECT_EQ(figures.devices[0].busy_ns, 3 * 400'000);
  EXPECT_EQ(KernelsIn(figures, "forward"), 6);
  EXPECT_EQ(KernelsIn(figures, "unphased"), 0);
  for (const PhaseFigures& phase : figures.phases) {
    for (const KernelTotals& kernel : phase.kernels) {
      EXPECT_EQ(kernel.count, 3) << phase.name << ": forward's kernels in forward alone";
    }
    EXPECT_EQ(phase.kernels.size(), 2u) << phase.name;
    EXPECT_EQ(phase.wall_ns, 3 * 200'000) << "of one rank";
  }
}

INSTANTIATE_TEST_SUITE_P(Skew, MergedRanksTest, ::testing::Values(0.25, 15.0, 300.0, -50.0));

TEST(MergedRanksTest, DevicesOfOneNumberAreTwo) {
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures,
                       Figures({{100, 0, 0, 0, "gemm_a"}, {10200, 10000, 0, 300, "gemm_b"}}));
  ASSERT_EQ(figures.devices.size(), 2u);
  EXPECT_EQ(figures.devices[1].device, 10000);
  EXPECT_EQ(KernelsIn(figures, "forward"), 6);
}

TEST(MergedRanksTest, AnIdThatComesAgainMeansTheLaunchBefore) {
  // One process whose ids start over, as 32 bits do.
  std::vector<std::string> events;
  for (const double at : {1000.0, 3000.0}) {
    const std::string phase = at < 2000 ? "step/forward" : "step/backward";
    events.push_back(Event("user_annotation", phase, 1, 1, at, 900));
    events.push_back(
        Event("cuda_runtime", "cudaLaunchKernel", 1, 1, at + 10, 5, R"({"correlation":7})"));
    events.push_back(
        Event("kernel", "k", 0, 7, at + 1500, 100, R"({"device":0,"stream":7,"correlation":7})"));
  }
  ASSERT_OK_AND_ASSIGN(const trace::RecordedTrace trace,
                       trace::ParseTrace(absl::StrCat("[", absl::StrJoin(events, ","), "]")));
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, ComputeFigures(trace, {}));
  EXPECT_EQ(KernelsIn(figures, "forward"), 1);
  EXPECT_EQ(KernelsIn(figures, "backward"), 1);
  EXPECT_EQ(figures.completeness.launches_without_kernel, 0);
}

TEST(MergedRanksTest, IsSaidInAFinding) {
  std::vector<std::string> events;
  AddRank({100, 0, 0, 0, "a"}, events);
  AddRank({200, 1, 1, 50, "b"}, events);
  ASSERT_OK_AND_ASSIGN(const trace::RecordedTrace trace,
                       trace::ParseTrace(absl::StrCat("[", absl::StrJoin(events, ","), "]")));
  ASSERT_OK_AND_ASSIGN(const Profile profile, BuildProfile(trace, nullptr));
  bool said = false;
  for (const job::Finding& finding : profile.findings) said |= finding.code == "SEVERAL_PROCESSES";
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace libreyolo::analysis
