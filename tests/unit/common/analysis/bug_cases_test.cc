// Situations that broke other tools: the right answer for each small trace, and for its kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/kernels.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/statistics.h"
#include "common/analysis/verdict.h"
#include "common/analysis/what_if.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::DataPath;
using ::libreyolo::testing::ReadJsonFile;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<Profile> LoadCase(const std::string& name) {
  return LoadProfile(DataPath("traces/" + name + ".json"));
}

const job::Finding* FindFinding(const Profile& profile, const std::string& code) {
  for (const job::Finding& finding : profile.findings) {
    if (finding.code == code) return &finding;
  }
  return nullptr;
}

const PhaseRow* FindPhase(const Profile& profile, const std::string& name) {
  for (const PhaseRow& row : profile.phases) {
    if (row.phase == name) return &row;
  }
  return nullptr;
}

std::string Event(const char* category, const char* name, int64_t ts, int64_t dur,
                  const std::string& args = "{}") {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                      R"(","pid":1,"tid":1,"ts":)", ts, ",\"dur\":", dur, ",\"args\":", args, "}");
}

absl::StatusOr<Profile> Build(const std::vector<std::string>& events) {
  return LoadProfileFromBytes(absl::StrCat("{\"traceEvents\":[", absl::StrJoin(events, ","), "]}"),
                              "");
}

TEST(BugCasesTest, Case01BackslashNames) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("01-backslash-names"));
  EXPECT_EQ(profile.window_real_steps, 1);
  EXPECT_EQ(profile.step_ms, 1.0);
  EXPECT_EQ(profile.completeness->kernels, 2);
  EXPECT_EQ(profile.exact.gpu_sum_ms, 0.5);
  EXPECT_EQ(profile.exact.gpu_busy_ms, 0.5);
  EXPECT_EQ(profile.gpu_util, 0.5);
  ASSERT_EQ(profile.categories.size(), 2u);
  EXPECT_EQ(profile.categories[0].name, "gemm / conv");
  EXPECT_EQ(profile.categories[0].pct, 60.0);
  EXPECT_EQ(profile.categories[1].name, "elementwise");
  EXPECT_EQ(profile.categories[1].pct, 40.0);
  ASSERT_NE(FindFinding(profile, "NAMES_REPAIRED"), nullptr);
  EXPECT_THAT(FindFinding(profile, "NAMES_REPAIRED")->text, HasSubstr("2 event names repaired"));
}

TEST(BugCasesTest, Case01OfKernelsAndOps) {
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       Build({Event("user_annotation", "ProfilerStep#1", 0, 100),
                              Event("cpu_op", R"(C:\work\nn\ops)", 1, 5),
                              Event("kernel", R"(my\kernel\name)", 10, 5)}));
  EXPECT_EQ(profile.ops[0].op, R"(C:\work\nn\ops)");
  EXPECT_EQ(profile.kernels[0].raw_name, R"(my\kernel\name)");
  ASSERT_OK(ParseJson(WriteProfileJson(profile)).status());
}

TEST(BugCasesTest, Case02BareNumbers) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("02-inf-bandwidth"));
  EXPECT_EQ(profile.memcpy_ms_per_step, 0.04);
  EXPECT_EQ(profile.completeness->kernels, 2);
  EXPECT_EQ(profile.exact.gpu_busy_ms, 0.5);
  EXPECT_EQ(profile.gpu_util, 0.5) << "kernels only: copies are not busy time";
  ASSERT_NE(FindFinding(profile, "BARE_NUMBERS"), nullptr);
  const std::string json = WriteProfileJson(profile);
  ASSERT_OK(ParseJson(json).status());
  EXPECT_THAT(json, Not(HasSubstr(": inf")));
  EXPECT_THAT(json, Not(HasSubstr(": nan")));
}

TEST(BugCasesTest, Case02InTimeStamps) {
  ASSERT_OK_AND_ASSIGN(
      const Profile profile,
      LoadProfileFromBytes(
          R"([{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":9},
        {"ph":"X","cat":"kernel","name":"a","ts":NaN,"dur":5},
        {"ph":"X","cat":"kernel","name":"b","ts":1,"dur":Infinity},
        {"ph":"X","cat":"kernel","name":"c","ts":1,"dur":2}])",
          ""));
  EXPECT_EQ(profile.completeness->kernels, 1);
  ASSERT_NE(FindFinding(profile, "EVENTS_WITHOUT_TIME"), nullptr);
  EXPECT_THAT(FindFinding(profile, "EVENTS_WITHOUT_TIME")->text, HasSubstr("2 of 4 events"));
}

TEST(BugCasesTest, Case03KernelsWithoutTime) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("03-zero-timestamp-kernels"));
  EXPECT_EQ(profile.completeness->kernels, 2);
  EXPECT_EQ(profile.completeness->untimed_kernels, 3);
  EXPECT_EQ(profile.completeness->launches, 5);
  EXPECT_EQ(profile.completeness->launches_without_kernel, 0) << "their kernels are there";
  EXPECT_EQ(profile.devices[0].sum_ns, 150000);
  EXPECT_EQ(profile.devices[0].busy_ns, 150000);
  EXPECT_EQ(profile.window_wall_ms, 0.2);
  EXPECT_EQ(profile.gpu_util, 0.75);
  EXPECT_FALSE(profile.step_ms.has_value());
  EXPECT_FALSE(profile.launches_per_step.has_value());
  ASSERT_NE(FindFinding(profile, "KERNELS_WITHOUT_TIME"), nullptr);
  EXPECT_THAT(FindFinding(profile, "KERNELS_WITHOUT_TIME")->text,
              HasSubstr("3 of 5 kernels have no timestamp; GPU time is a lower bound"));
  EXPECT_EQ(profile.validity, Validity::kSuspect);
}

TEST(BugCasesTest, Case04Overlap) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("04-two-stream-overlap"));
  EXPECT_EQ(profile.exact.gpu_sum_ms, 1.4);
  EXPECT_EQ(profile.exact.gpu_busy_ms, 0.8);
  EXPECT_EQ(profile.gpu_util, 0.8);
  EXPECT_EQ(profile.gpu_util_raw, 1.4) << "the reference's figure, kept for comparison";
  EXPECT_EQ(profile.devices[0].stream_count, 3);
  EXPECT_FALSE(profile.memory_pressure);
  EXPECT_EQ(profile.bound, kBoundCompute);
  ASSERT_EQ(profile.kernels.size(), 3u);
  EXPECT_EQ(profile.kernels[0].pct_of_gpu, 42.86);
  EXPECT_EQ(profile.kernels[1].pct_of_gpu, 42.86);
  EXPECT_EQ(profile.kernels[2].pct_of_gpu, 14.29);
  ASSERT_OK_AND_ASSIGN(const KernelsReport kernels, ReportKernels(profile, {}));
  EXPECT_EQ(kernels.matched_pct, 100.01) << "the rows' sum, and no more digits than they have";
  EXPECT_EQ(kernels.matched_ms_per_step, 1.4);
  WhatIfQuery hidden;
  hidden.remove_category = "elementwise";
  hidden.remove_launches = 0;
  EXPECT_EQ(profile.kernels[2].exclusive_ns, 0) << "stream 20 is fully hidden";
  EXPECT_EQ(profile.kernels[1].exclusive_ns, 200000);
  ASSERT_OK_AND_ASSIGN(WhatIfReport report, ProjectWhatIf(profile, hidden));
  EXPECT_EQ(report.saved_gpu_ms, 0);
  EXPECT_EQ(report.step_projected_exact_ms, 1.0);
  WhatIfQuery norm;
  norm.remove_category = "norm";
  ASSERT_OK_AND_ASSIGN(report, ProjectWhatIf(profile, norm));
  EXPECT_NEAR(*report.step_projected_exact_ms, 0.8, 1e-9);
}

TEST(BugCasesTest, Case05NoMarkers) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("05-no-profilerstep"));
  EXPECT_EQ(profile.window_real_steps, 0);
  EXPECT_EQ(profile.devices[0].sum_ns, 130000);
  EXPECT_EQ(profile.devices[0].busy_ns, 130000);
  EXPECT_EQ(profile.gpu_util, 0.684);
  EXPECT_FALSE(profile.step_ms.has_value());
  EXPECT_FALSE(profile.gpu_busy_ms_per_step.has_value());
  ASSERT_EQ(profile.kernels_by_phase.size(), 1u);
  EXPECT_EQ(profile.kernels_by_phase[0].first, "forward");
  EXPECT_EQ(profile.kernels_by_phase[0].second.size(), 3u) << "by launch";
  ASSERT_NE(FindFinding(profile, "NO_STEP_MARKERS"), nullptr);
}

TEST(BugCasesTest, Case06KernelsBehindTheirPhase) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("06-async-launch-phase"));
  EXPECT_EQ(FindPhase(profile, "forward")->gpu_ms_per_step, 0.45);
  EXPECT_EQ(FindPhase(profile, "forward")->kernels_per_step, 2);
  EXPECT_EQ(FindPhase(profile, "backward")->gpu_ms_per_step, 0.3);
  EXPECT_EQ(FindPhase(profile, "optimizer")->gpu_ms_per_step, 0.1);
  EXPECT_EQ(FindPhase(profile, "unphased"), nullptr);
  EXPECT_EQ(profile.exact.gpu_sum_ms, 0.85);
  EXPECT_EQ(profile.gpu_util, 0.85);
  EXPECT_EQ(profile.exact.host_wait_ms, 0.75);
}

TEST(BugCasesTest, Case07NestedOps) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("07-nested-ops"));
  const auto row = [&](const std::string& name) {
    for (const OpRow& op : profile.ops) {
      if (op.op == name) return op;
    }
    return OpRow{};
  };
  EXPECT_EQ(profile.ops[0].op, "aten::cudnn_convolution") << "the costliest by self time";
  EXPECT_EQ(row("aten::conv2d").self_ns, 10000);
  EXPECT_EQ(row("aten::convolution").self_ns, 10000);
  EXPECT_EQ(row("aten::_convolution").self_ns, 10000);
  EXPECT_EQ(row("aten::cudnn_convolution").self_ns, 70000);
  EXPECT_EQ(row("aten::relu").self_ns, 30000);
  EXPECT_EQ(row("aten::to").self_ns, 5000);
  EXPECT_EQ(row("aten::_to_copy").self_ns, 26000) << "outlasts its parent, nested all the same";
  EXPECT_EQ(row("aten::conv2d").ms_per_step, 0.1) << "inclusive, as the peer";
  double shares = 0;
  int64_t self = 0;
  for (const OpRow& op : profile.ops) {
    shares += op.pct_of_cpu_ops;
    self += *op.self_ns;
    EXPECT_GE(*op.self_ns, 0);
  }
  EXPECT_EQ(self, 161000) << "the time that operations cover";
  EXPECT_NEAR(shares, 100, 0.05);
}

TEST(BugCasesTest, Case08CudaGraph) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("08-cuda-graph"));
  EXPECT_EQ(profile.kernels_per_step, 6);
  EXPECT_EQ(profile.exact.gpu_sum_ms, 0.5);
  EXPECT_EQ(profile.exact.gpu_busy_ms, 0.5);
  EXPECT_EQ(profile.launches_per_step, 2) << "one graph and one kernel";
  EXPECT_EQ(profile.exact.graph_launches_per_step, 1);
  EXPECT_EQ(profile.completeness->graph_kernels, 4);
  EXPECT_EQ(profile.completeness->by_time, 1) << "still counted as GPU time";
  EXPECT_EQ(FindPhase(profile, "forward")->kernels_per_step, 5);
  EXPECT_EQ(FindPhase(profile, "forward")->gpu_ms_per_step, 0.45);
  EXPECT_EQ(FindPhase(profile, "unphased")->kernels_per_step, 1);
  WhatIfQuery query;
  query.remove_launches = 6;
  ASSERT_OK_AND_ASSIGN(const WhatIfReport report, ProjectWhatIf(profile, query));
  EXPECT_EQ(report.removed_launches, 2);
}

TEST(BugCasesTest, Case09DataLoader) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("09-dataloader-wait"));
  EXPECT_EQ(profile.step_ms, 1.0);
  EXPECT_EQ(profile.dataload_ms, 0.7);
  EXPECT_EQ(profile.dataload_frac, 0.7);
  EXPECT_EQ(profile.gpu_util, 0.2);
  EXPECT_EQ(profile.host_overhead_ms_per_step, 0.1);
  EXPECT_EQ(profile.bound, kBoundDataloader);
}

TEST(BugCasesTest, Case09NestedInAStepPhaseCountsOnce) {
  ASSERT_OK_AND_ASSIGN(
      const Profile profile,
      Build({Event("user_annotation", "ProfilerStep#1", 0, 1000),
             Event("user_annotation", "step/dataload", 0, 700),
             Event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 5, 690),
             Event("cpu_op", "aten::add", 800, 5)}));
  EXPECT_EQ(profile.dataload_ms, 0.7);
}

TEST(BugCasesTest, Case10Percentiles) {
  ASSERT_OK_AND_ASSIGN(const JsonValue file,
                       ReadJsonFile(DataPath("traces/10-small-percentiles.json")));
  const double want[][3] = {
      {7.5, 7.5, 7.5}, {15, 19, 19.9}, {25, 79, 97.9}, {3.5, 5.5, 5.95}, {1, 1, 1}};
  size_t i = 0;
  for (const JsonValue& item : file.Find("cases")->array()) {
    std::vector<int64_t> latencies_ns;
    for (const JsonValue& ms : item.Find("latencies_ms")->array()) {
      latencies_ns.push_back(static_cast<int64_t>(ms.number() * 1e6));
    }
    const Latency latency = SummarizeLatencies(latencies_ns);
    EXPECT_EQ(latency.p50_ms, want[i][0]) << i;
    EXPECT_EQ(latency.p90_ms, want[i][1]) << i;
    EXPECT_EQ(latency.p99_ms, want[i][2]) << i;
    EXPECT_EQ(latency.n, static_cast<int64_t>(latencies_ns.size()));
    EXPECT_LE(latency.min_ms, latency.p50_ms);
    EXPECT_LE(latency.p99_ms, latency.max_ms);
    EXPECT_FALSE(latency.p99_limits.high_ms.has_value()) << "so few samples bound no p99";
    ++i;
  }
  EXPECT_EQ(i, 5u);
}

TEST(BugCasesTest, Case11GpuNotRecorded) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("11-launches-no-kernels"));
  EXPECT_EQ(profile.window_real_steps, 1);
  EXPECT_EQ(profile.step_ms, 1.0);
  EXPECT_EQ(profile.launches_per_step, 3);
  EXPECT_EQ(profile.bound, kBoundNotRecorded);
  EXPECT_THAT(profile.bound_why, HasSubstr("3 kernel launches but no GPU events"));
  EXPECT_THAT(profile.bound_why, HasSubstr("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
  EXPECT_FALSE(profile.gpu_util.has_value());
  EXPECT_FALSE(profile.kernels_per_step.has_value());
  EXPECT_FALSE(profile.host_overhead_ms_per_step.has_value());
  EXPECT_NEAR(*profile.exact.host_wait_ms, 0.58, 1e-9);
  EXPECT_EQ(profile.validity, Validity::kInvalid);
}

TEST(BugCasesTest, Case11IsNotACpuTrace) {
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       Build({Event("user_annotation", "ProfilerStep#1", 0, 100),
                              Event("cpu_op", "aten::mm", 1, 90)}));
  EXPECT_EQ(profile.gpu, GpuState::kNone);
  EXPECT_TRUE(IsCpuProfile(profile));
  EXPECT_EQ(profile.bound, kBoundCompute);
  EXPECT_THAT(profile.bound_why, HasSubstr("aten::mm"));
  EXPECT_EQ(profile.validity, Validity::kValid);
}

}  // namespace
}  // namespace libreyolo::analysis
