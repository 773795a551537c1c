// Situations that broke other tools: the right answer for each small trace, and for its kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/compare.h"
#include "common/analysis/kernels.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/statistics.h"
#include "common/analysis/summary.h"
#include "common/analysis/trace_figures.h"
#include "common/analysis/verdict.h"
#include "common/analysis/what_if.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/trace/trace_reader.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::DataPath;
using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::ReadJsonFile;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<Profile> LoadCase(const std::string& name) {
  return LoadProfile(DataPath("traces/" + name + ".json"));
}

absl::StatusOr<TraceFigures> FiguresOfCase(const std::string& name) {
  LY_ASSIGN_OR_RETURN(const trace::RecordedTrace trace,
                      trace::ReadTrace(DataPath("traces/" + name + ".json")));
  return ComputeFigures(trace, {});
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
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, FiguresOfCase("02-inf-bandwidth"));
  EXPECT_EQ(figures.copy_count, 2) << "the copy without a length stays an event";
  EXPECT_EQ(figures.copy_ns, 40000);
  EXPECT_EQ(profile.completeness->kernels, 2);
  EXPECT_EQ(profile.exact.gpu_sum_ms, 0.5);
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
  ASSERT_EQ(profile.devices.size(), 1u);
  const DeviceFigures& device = profile.devices[0];
  EXPECT_EQ(device.stream_count, 3);
  EXPECT_EQ(1'000'000 - device.busy_ns, 200'000) << "idle in the step of 1000 us";
  EXPECT_EQ(profile.step_ms, 1.0);
  EXPECT_EQ(device.sum_ns - device.busy_ns, 600'000) << "overlap";
  EXPECT_EQ(static_cast<double>(device.sum_ns) / static_cast<double>(device.busy_ns), 1.75);
  ASSERT_EQ(device.streams.size(), 3u);
  const int64_t streams[][2] = {{7, 600'000}, {13, 600'000}, {20, 200'000}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(device.streams[i].stream, streams[i][0]);
    EXPECT_EQ(device.streams[i].busy_ns, streams[i][1]);
    EXPECT_EQ(device.streams[i].sum_ns, streams[i][1]);
    EXPECT_EQ(device.streams[i].kernel_count, 1);
  }
  EXPECT_FALSE(profile.memory_pressure);
  EXPECT_EQ(profile.bound, kBoundCompute);
  ASSERT_EQ(profile.kernels.size(), 3u);
  EXPECT_EQ(profile.kernels[0].pct_of_gpu, 42.86);
  EXPECT_EQ(profile.kernels[1].pct_of_gpu, 42.86);
  EXPECT_EQ(profile.kernels[2].pct_of_gpu, 14.29);
  ASSERT_OK_AND_ASSIGN(const KernelsReport kernels, ReportKernels(profile, {}));
  EXPECT_EQ(kernels.matched_pct, 100) << "the rows' sum, and no more than all";
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

TEST(BugCasesTest, Case04KernelsOverlapOnOneStream) {
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       Build({Event("user_annotation", "ProfilerStep#1", 0, 1000),
                              Event("kernel", "late", 300, 100, R"({"device":0,"stream":7})"),
                              Event("kernel", "first", 100, 100, R"({"device":0,"stream":7})"),
                              Event("kernel", "beside", 150, 300, R"({"device":0,"stream":9})"),
                              Event("kernel", "dependent", 180, 60, R"({"device":0,"stream":7})"),
                              Event("kernel", "other", 10, 50, R"({"device":1,"stream":7})")}));
  ASSERT_EQ(profile.devices.size(), 2u) << "a stream's number says nothing across devices";
  const DeviceFigures& device = profile.devices[0];
  ASSERT_EQ(device.streams.size(), 2u);
  EXPECT_EQ(device.streams[0].stream, 7);
  EXPECT_EQ(device.streams[0].busy_ns, 240'000);
  EXPECT_EQ(device.streams[0].sum_ns, 260'000);
  EXPECT_EQ(device.streams[0].kernel_count, 3);
  EXPECT_EQ(device.streams[1].busy_ns, 300'000);
  EXPECT_EQ(device.busy_ns, 350'000);
  EXPECT_EQ(device.sum_ns, 560'000);
}

TEST(BugCasesTest, Case04StreamsAreInTheFileAndInTheSummary) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("04-two-stream-overlap"));
  ASSERT_OK_AND_ASSIGN(const JsonValue file, ParseJson(WriteProfileJson(profile)));
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(file));
  EXPECT_EQ(WriteProfileJson(again), WriteProfileJson(profile));
  ASSERT_EQ(again.devices.size(), 1u);
  ASSERT_EQ(again.devices[0].streams.size(), 3u);
  EXPECT_EQ(again.devices[0].streams[1].stream, 13);
  EXPECT_EQ(again.devices[0].streams[1].busy_ns, 600'000);
  const JsonValue summary = ToJson(Summarize(profile));
  ASSERT_NE(summary.Find("devices"), nullptr);
  EXPECT_EQ(summary.Find("devices")->ToCompact(), file.Find("devices")->ToCompact());
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
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, FiguresOfCase("05-no-profilerstep"));
  EXPECT_EQ(figures.window_start_ns, 1'010'000);
  EXPECT_EQ(figures.window_end_ns, 1'200'000) << "the GPU's span, 190 us";
  ASSERT_EQ(figures.phases.size(), 1u);
  EXPECT_EQ(figures.phases[0].kernel_count, 3);
  EXPECT_EQ(figures.phases[0].gpu_ns, 130'000);
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
  EXPECT_EQ(profile.step_ms, 1.0);
  EXPECT_EQ(FindPhase(profile, "backward")->kernels_per_step, 1);
  EXPECT_EQ(FindPhase(profile, "optimizer")->kernels_per_step, 1);
  ASSERT_EQ(profile.kernels_by_phase[0].second.size(), 2u);
  EXPECT_EQ(profile.kernels_by_phase[0].second[0].total_ns, 300'000);
  EXPECT_EQ(profile.kernels_by_phase[0].second[1].total_ns, 150'000);
  ASSERT_TRUE(profile.queue_delay.has_value());
  EXPECT_EQ(profile.queue_delay->launches, 4);
  EXPECT_EQ(profile.queue_delay->last_ns, 590'000) << "launched at 1210, started at 1800";
  EXPECT_EQ(profile.queue_delay->max_ns, 590'000);
  EXPECT_EQ(profile.queue_delay->p50_ns, 320'000) << "of 40, 290, 350, 590";
  EXPECT_EQ(profile.queue_delay->mean_ns, 317'500);
  ASSERT_OK_AND_ASSIGN(const JsonValue file, ParseJson(WriteProfileJson(profile)));
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(file));
  ASSERT_TRUE(again.queue_delay.has_value());
  EXPECT_EQ(again.queue_delay->last_ns, 590'000);
  EXPECT_EQ(again.queue_delay->p50_ns, 320'000);
  const JsonValue summary = ToJson(Summarize(profile));
  ASSERT_NE(summary.Find("queue_delay"), nullptr);
  EXPECT_EQ(summary.Find("queue_delay")->Find("last_ns")->int_value(), 590'000);
}

TEST(BugCasesTest, Case06OfGraphsAndClocksThatDisagree) {
  ASSERT_OK_AND_ASSIGN(
      const Profile profile,
      Build({Event("user_annotation", "ProfilerStep#1", 1, 1000),
             Event("cuda_runtime", "cudaGraphLaunch", 10, 5, R"({"correlation":1})"),
             Event("cuda_runtime", "cudaLaunchKernel", 20, 5, R"({"correlation":2})"),
             Event("cuda_runtime", "cudaLaunchKernel", 700, 5, R"({"correlation":3})"),
             Event("kernel", "b", 400, 100, R"({"device":0,"stream":7,"correlation":1})"),
             Event("kernel", "a", 100, 300, R"({"device":0,"stream":7,"correlation":1})"),
             Event("kernel", "c", 500, 50, R"({"device":0,"stream":7,"correlation":2})"),
             Event("kernel", "early", 699, 9, R"({"device":0,"stream":7,"correlation":3})"),
             Event("kernel", "alone", 900, 9, R"({"device":0,"stream":7})")}));
  ASSERT_TRUE(profile.queue_delay.has_value());
  EXPECT_EQ(profile.queue_delay->launches, 2);
  EXPECT_EQ(profile.queue_delay->max_ns, 480'000) << "not of the graph's later kernels";
  EXPECT_EQ(profile.queue_delay->mean_ns, (90'000 + 480'000) / 2);
  EXPECT_EQ(profile.queue_delay->last_ns, 480'000);
  EXPECT_EQ(profile.queue_delay->early_launches, 1);
}

TEST(BugCasesTest, Case06WithoutLaunches) {
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("04-two-stream-overlap"));
  EXPECT_FALSE(profile.queue_delay.has_value()) << "unknown, not 0";
  EXPECT_EQ(ToJson(Summarize(profile)).Find("queue_delay"), nullptr);
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
  EXPECT_EQ(row("aten::_to_copy").self_ns, 25000) << "outlasts its parent by rounding";
  EXPECT_EQ(row("aten::conv2d").ms_per_step, 0.1) << "inclusive, as the peer";
  const std::pair<const char*, int64_t> inclusive[] = {
      {"conv2d", 100'000},           {"convolution", 90'000}, {"_convolution", 80'000},
      {"cudnn_convolution", 70'000}, {"relu", 30'000},        {"to", 30'000},
      {"_to_copy", 26'000}};
  int64_t inclusive_sum = 0;
  for (const auto& [name, ns] : inclusive) {
    EXPECT_EQ(row(std::string("aten::") + name).total_ns, ns) << name;
    inclusive_sum += ns;
  }
  EXPECT_EQ(inclusive_sum, 426'000);
  EXPECT_EQ(profile.step_ms, 0.2);
  EXPECT_EQ(row("aten::cudnn_convolution").pct_of_cpu_ops, 43.75);
  double shares = 0;
  int64_t self = 0;
  for (const OpRow& op : profile.ops) {
    shares += op.pct_of_cpu_ops;
    self += *op.self_ns;
    EXPECT_GE(*op.self_ns, 0);
  }
  EXPECT_EQ(self, 160000) << "the time that operations cover, less rounding";
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
  EXPECT_EQ(FindPhase(profile, "unphased")->gpu_ms_per_step, 0.05);
  EXPECT_EQ(profile.gpu_util, 0.5);
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
  EXPECT_EQ(profile.window_real_steps, 2);
  EXPECT_EQ(profile.gpu_busy_ms_per_step, 0.2);
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
  EXPECT_EQ(profile.completeness->kernels_in_trace, 0);
  EXPECT_EQ(profile.bound, kBoundNotRecorded);
  EXPECT_THAT(Compare(profile, profile, {}), FailsWith(reason::kNotComparable));
  EXPECT_THAT(profile.bound_why, HasSubstr("3 kernel launches but no kernel on the GPU"));
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
