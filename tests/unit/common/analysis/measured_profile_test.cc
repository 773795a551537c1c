// Profiles of our own measurements: with a trace, without one, repeated; and what is written
// beside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/metrics.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/profile_summary.h"
#include "common/analysis/repeat.h"
#include "common/analysis/summary.h"
#include "common/analysis/verdict.h"
#include "common/job/measurement_json.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1000000;

job::Measurement Inference(const std::vector<int64_t>& latencies_ms, int batch = 2) {
  job::Measurement m;
  m.mode = job::Mode::kInfer;
  m.model.weights = "LibreYOLO9t.pt";
  m.model.size = "t";
  m.model.weights_digest = "abc";
  m.device = "cpu";
  m.device_name = "Test CPU";
  m.batch = batch;
  m.imgsz = 640;
  m.warmup = 3;
  m.runs = static_cast<int>(latencies_ms.size());
  m.conf = 0.25;
  m.iou = 0.45;
  m.max_det = 300;
  m.half_requested = true;
  m.environment.threads = 2;
  for (const int64_t ms : latencies_ms) m.latencies_ns.push_back(ms * kMs);
  m.images_processed = static_cast<int64_t>(latencies_ms.size()) * batch;
  for (int i = 0; i < 2; ++i) {
    m.traced_steps.push_back(
        {24 * kMs,
         {{"preprocess", 4 * kMs}, {"forward", (17 + 2 * i) * kMs}, {"postprocess", 1 * kMs}}});
  }
  m.traced = true;
  m.op_records = 4;
  m.peak_rss_bytes = 123400000;
  return m;
}

job::Measurement Training() {
  job::Measurement m = Inference({200, 100, 300}, 4);
  m.mode = job::Mode::kTrain;
  m.images_processed = 10;  // the last batch was short
  m.dataload_ns = {2 * kMs, 1 * kMs, 3 * kMs};
  m.amp_requested = true;
  m.workers = 2;
  m.traced_steps = {{220 * kMs,
                     {{"dataload", 9 * kMs},
                      {"to_device", 1 * kMs},
                      {"forward", 80 * kMs},
                      {"backward", 110 * kMs},
                      {"optimizer", 10 * kMs}}}};
  return m;
}

std::string OwnTrace(const job::Measurement& m) {
  std::string events;
  for (int i = 0; i < 2; ++i) {
    const int64_t start = 1000 + 24000 * i;
    absl::StrAppend(
        &events, i > 0 ? "," : "", R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)",
        m.warmup + i, R"(","pid":1,"tid":1,"ts":)", start, R"(,"dur":24000},)",
        R"({"ph":"X","cat":"user_annotation","name":"step/forward","pid":1,"tid":1,"ts":)",
        start + 4000, R"(,"dur":18000},)",
        R"({"ph":"X","cat":"cpu_op","name":"aten::conv2d","pid":1,"tid":1,"ts":)", start + 5000,
        R"(,"dur":10000},)",
        R"({"ph":"X","cat":"cpu_op","name":"aten::mkldnn_convolution","pid":1,"tid":1,"ts":)",
        start + 6000, R"(,"dur":8000})");
  }
  JsonValue ours{JsonValue::Object{}};
  ours.Set("schema", "libreyolo.trace/v1");
  ours.Set("measurement", job::MeasurementToJson(m));
  return absl::StrCat(R"({"traceEvents":[)", events, R"(],"libreyolo":)", ours.ToCompact(), "}");
}

TEST(MeasuredProfileTest, ATraceAloneGivesTheWholeProfile) {
  const job::Measurement m = Inference({20, 10, 30, 20});
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadProfileFromBytes(OwnTrace(m), ""));
  EXPECT_EQ(profile.mode, "inference");
  EXPECT_EQ(profile.model, "LibreYOLO9t.pt");
  EXPECT_EQ(profile.step_ms, 20.0);
  EXPECT_EQ(profile.img_per_s, 100.0);
  EXPECT_EQ(profile.window_real_steps, 2) << "every traced step counts";
  ASSERT_TRUE(profile.latency.has_value());
  EXPECT_EQ(profile.latency->p50_ms, 20.0);
  EXPECT_EQ(profile.latency->p90_ms, 27.0);
  EXPECT_EQ(profile.latency->n, 4);
  EXPECT_THAT(*profile.stages_ms, ElementsAre(std::pair<std::string, double>("preprocess", 4.0),
                                              std::pair<std::string, double>("forward", 18.0),
                                              std::pair<std::string, double>("postprocess", 1.0)));
  EXPECT_EQ(profile.bound, kBoundCompute);
  EXPECT_THAT(profile.bound_why, HasSubstr("forward"));
  EXPECT_THAT(profile.bound_why, HasSubstr("aten::mkldnn_convolution 80 %"));
  ASSERT_TRUE(profile.tracing.has_value());
  EXPECT_DOUBLE_EQ(profile.tracing->ratio, 1.2);
  EXPECT_EQ(ConfigText(profile, "device"), "cpu");
  EXPECT_FALSE(profile.config.Find("half")->bool_value()) << "what was in force";
  EXPECT_TRUE(profile.config.Find("half_requested")->bool_value());
  EXPECT_EQ(profile.latencies_ns.size(), 4u);
  EXPECT_EQ(profile.weights->weights_digest, "abc");

  const SummaryReport report = Summarize(profile);
  EXPECT_TRUE(report.on_cpu);
  EXPECT_EQ(report.threads, 2);
  EXPECT_EQ(report.peak_rss_mb, 123.4);
  EXPECT_EQ(report.top_ops[0].op, "aten::mkldnn_convolution");
  EXPECT_NEAR(report.phase_shares[1].ratio, 18.0 / 23, 1e-12);
  EXPECT_FALSE(report.gpu_util.has_value());

  const JsonValue json = ProfileToJson(profile);
  EXPECT_EQ(json.Find("gpu_util")->number(), 0.0) << "numbers for the peer's programs";
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(json));
  EXPECT_EQ(WriteProfileJson(again), WriteProfileJson(profile));
}

TEST(MeasuredProfileTest, WithoutATrace) {
  job::Measurement m = Inference({20, 10, 30, 20});
  m.traced = false;
  const Profile profile = BuildProfile(m);
  EXPECT_FALSE(profile.trace.has_value());
  EXPECT_EQ(profile.img_per_s, 100.0);
  EXPECT_EQ(profile.window_real_steps, 4);
  EXPECT_EQ(profile.phases[1].wall_ms_per_step, 18.0);
  EXPECT_FALSE(profile.tracing.has_value());
  const JsonValue json = ProfileToJson(profile);
  EXPECT_EQ(json.object()[1].first, "mode") << "the peer's order without a trace";
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(json));
  EXPECT_EQ(WriteProfileJson(again), WriteProfileJson(profile));
  ASSERT_OK(GetMetric(profile, "latency_p99_ms", "p").status());
  ASSERT_OK(GetMetric(profile, "forward_wall_ms", "p").status());
}

TEST(MeasuredProfileTest, WhatWasSeenOfTheGpuIsKept) {
  job::Measurement m = Inference({20, 10, 30, 20});
  m.traced = false;
  EXPECT_EQ(ProfileToJson(BuildProfile(m)).Find("gpu_watch"), nullptr);
  job::GpuWatch watch;
  watch.uuid = "GPU-1";
  watch.throttled_ratio = 0.12;
  watch.limits = {"power cap"};
  watch.energy_per_image_j = 1.5;
  watch.foreign = {{7, "python", std::nullopt, 30}};
  watch.samples = {{.at_ns = 50 * kMs, .sm_clock_mhz = 1410}};
  m.gpu_watch = watch;
  const Profile profile = BuildProfile(m);
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(ProfileToJson(profile)));
  ASSERT_TRUE(again.gpu_watch.has_value());
  EXPECT_EQ(again.gpu_watch->foreign.at(0).busy_percent, 30);
  EXPECT_EQ(again.gpu_watch->samples.at(0).sm_clock_mhz, 1410);
  EXPECT_FALSE(again.gpu_watch->samples.at(0).power_w.has_value());
  EXPECT_EQ(WriteProfileJson(again), WriteProfileJson(profile));
  // A trace of before has no such member, and is none the worse.
  JsonValue old{JsonValue::Object{}};
  const JsonValue json = job::MeasurementToJson(m);
  for (const auto& [key, value] : json.object()) {
    if (key != "gpu_watch") old.Set(key, value);
  }
  ASSERT_OK_AND_ASSIGN(const job::Measurement back, job::MeasurementFromJson(old));
  EXPECT_FALSE(back.gpu_watch.has_value());
}

TEST(MeasuredProfileTest, TheAllocatorsCountsAreKeptAndMetrics) {
  job::Measurement m = Inference({20, 10, 30, 20});
  m.traced = false;
  EXPECT_EQ(ProfileToJson(BuildProfile(m)).Find("device_memory"), nullptr);
  EXPECT_FALSE(GetMetric(BuildProfile(m), "peak_vram_reserved_mb", "p").ok());
  m.device_memory = job::DeviceMemory{.steps = 4,
                                      .peak_reserved_bytes = 1'234'567'890,
                                      .allocations = 1000,
                                      .frees = 998,
                                      .device_allocations = 1,
                                      .device_frees = 0,
                                      .retries = 0};
  const Profile profile = BuildProfile(m);
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(ProfileToJson(profile)));
  ASSERT_TRUE(again.device_memory.has_value());
  EXPECT_EQ(again.device_memory->frees, 998);
  EXPECT_EQ(WriteProfileJson(again), WriteProfileJson(profile));
  const auto metric = [&](const char* name) {
    const auto value = GetMetric(profile, name, "p");
    return value.ok() ? value->ToCompact() : std::string(value.status().message());
  };
  EXPECT_EQ(metric("peak_vram_reserved_mb"), "1234.6");
  EXPECT_EQ(metric("tensor_mallocs_per_step"), "250.0");
  EXPECT_EQ(metric("tensor_frees_per_step"), "249.5");
  EXPECT_EQ(metric("device_mallocs_per_step"), "0.25");
  EXPECT_EQ(metric("device_frees_per_step"), "0.0");
}

TEST(MeasuredProfileTest, ARepeatAddsUpWhatItsTrialsSawOfTheGpu) {
  std::vector<Profile> trials;
  for (int i = 0; i < 2; ++i) {
    job::Measurement m = Inference({20, 10, 30, 20});
    m.traced = false;
    m.device_memory = job::DeviceMemory{
        .steps = 4, .peak_reserved_bytes = 100 - i, .allocations = 10, .frees = 10 + i};
    job::GpuWatch watch;
    watch.uuid = "GPU-1";
    watch.throttled_ratio = 0.2 * i;
    watch.limits = i == 0 ? std::vector<std::string>{"power cap"}
                          : std::vector<std::string>{"power cap", "hot"};
    watch.sm_clock_min_mhz = 1000 + i;
    watch.sm_clock_max_mhz = 1400 - i;
    watch.sm_clock_mean_mhz = 1200 + 2 * i;
    watch.energy_j = 7;
    watch.foreign = {{7, "python", 100 + i, i == 0 ? std::optional<int64_t>(30) : std::nullopt}};
    watch.samples = {{.at_ns = 1}};
    m.gpu_watch = watch;
    trials.push_back(BuildProfile(m));
  }
  job::Measurement blind = Inference({20, 10, 30, 20});
  blind.traced = false;
  blind.gpu_watch = job::GpuWatch{.unavailable = "the NVIDIA driver does not answer"};
  trials.push_back(BuildProfile(blind));
  trials.back().device_memory = trials.front().device_memory;
  const Profile all = AggregateTrials(trials, {"a", "b", "c"});
  ASSERT_TRUE(all.device_memory.has_value());
  EXPECT_EQ(all.device_memory->steps, 12);
  EXPECT_EQ(all.device_memory->frees, 31);
  EXPECT_EQ(all.device_memory->peak_reserved_bytes, 100);
  const job::GpuWatch& watch = *all.gpu_watch;
  EXPECT_EQ(watch.unavailable, "") << "two trials knew";
  EXPECT_DOUBLE_EQ(watch.throttled_ratio, 0.1);
  EXPECT_THAT(watch.limits, ElementsAre("power cap", "hot"));
  EXPECT_EQ(watch.sm_clock_min_mhz, 1000);
  EXPECT_EQ(watch.sm_clock_max_mhz, 1400);
  EXPECT_EQ(watch.sm_clock_mean_mhz, 1201);
  EXPECT_EQ(watch.energy_j, 14);
  ASSERT_EQ(watch.foreign.size(), 1u);
  EXPECT_EQ(watch.foreign[0].memory_bytes, 101);
  EXPECT_EQ(watch.foreign[0].busy_percent, 30);
  EXPECT_THAT(watch.samples, IsEmpty()) << "they stay with their trials";
}

TEST(MeasuredProfileTest, TrainingCountsTheImagesItProcessed) {
  const job::Measurement m = Training();
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadProfileFromBytes(OwnTrace(m), ""));
  EXPECT_EQ(profile.model, "YOLOv9-t");
  EXPECT_FALSE(profile.mode.has_value());
  EXPECT_EQ(ModeOf(profile), "train");
  EXPECT_EQ(profile.step_ms, 200.0);
  EXPECT_NEAR(*profile.img_per_s, 16.67, 1e-9) << "10 images in 600 ms, not 12";
  EXPECT_EQ(profile.dataload_ms, 2.0) << "the untraced wait";
  EXPECT_EQ(profile.dataload_frac, 0.01);
  EXPECT_THAT(profile.bound_why, HasSubstr("backward"));
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(ProfileToJson(profile)));
  EXPECT_EQ(WriteProfileJson(again), WriteProfileJson(profile));
}

TEST(MeasuredProfileTest, FindingsDecideTheValidity) {
  job::Measurement m = Inference({20, 10});
  m.traced = false;
  EXPECT_EQ(BuildProfile(m).validity, Validity::kValid);
  m.environment.foreign_cpu_ratio = 0.3;
  Profile profile = BuildProfile(m);
  EXPECT_EQ(profile.validity, Validity::kSuspect);
  EXPECT_EQ(profile.findings.back().code, "FEW_SAMPLES");
  m.findings.push_back(
      {job::Finding::Severity::kInvalid, "FOREIGN_CPU_LOAD", "stated by the worker"});
  profile = BuildProfile(m);
  EXPECT_EQ(profile.validity, Validity::kInvalid);
  EXPECT_EQ(profile.findings[0].text, "stated by the worker") << "not said twice";
}

TEST(MeasuredProfileTest, DamagedMetadataIsNoProfile) {
  const auto result = LoadProfileFromBytes(
      R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","ts":1}],"libreyolo":{"measurement":{}}})",
      "");
  EXPECT_THAT(result, ::libreyolo::testing::FailsWith(reason::kTraceUnparsable));
}

TEST(RepeatTest, AveragesScalarsAndPoolsLatencies) {
  std::vector<Profile> trials = {BuildProfile(Inference({20, 20})),
                                 BuildProfile(Inference({25, 25}))};
  const std::vector<std::string> paths = {"p/infer_0/profile.json", "p/infer_1/profile.json"};
  const Profile repeat = AggregateTrials(trials, paths);
  EXPECT_EQ(repeat.img_per_s, 90.0);
  EXPECT_EQ(repeat.img_per_s_std, 10.0) << "population deviation, as the peer";
  EXPECT_EQ(repeat.img_per_s_n, 2);
  EXPECT_THAT(repeat.img_per_s_trials, ElementsAre(100.0, 80.0));
  EXPECT_EQ(repeat.step_ms, 22.5);
  EXPECT_EQ(repeat.latency->n, 4);
  EXPECT_EQ(repeat.latency->p50_ms, 22.5) << "of all latencies";
  ASSERT_OK_AND_ASSIGN(const JsonValue metric, GetMetric(repeat, "img_per_s", "p"));
  EXPECT_EQ(metric.number(), 90.0) << "summary and get agree";
  ASSERT_OK_AND_ASSIGN(const JsonValue throughput, GetMetric(repeat, "throughput_img_s", "p"));
  EXPECT_EQ(throughput.number(), 90.0);
  EXPECT_EQ(repeat.trials.size(), 2u);
  EXPECT_EQ(repeat.aggregation.Find("representative_profile")->string_value(), paths[1]);
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileFromJson(ProfileToJson(repeat)));
  EXPECT_EQ(WriteProfileJson(again), WriteProfileJson(repeat));
}

TEST(RepeatTest, VerdictsThatDifferAreMixed) {
  job::Measurement slow_post = Inference({20, 20});
  slow_post.traced_steps = {
      {30 * kMs, {{"preprocess", kMs}, {"forward", kMs}, {"postprocess", 9 * kMs}}}};
  const Profile repeat =
      AggregateTrials({BuildProfile(Inference({20, 20})), BuildProfile(slow_post)}, {});
  EXPECT_EQ(repeat.bound, kBoundMixed);
  EXPECT_THAT(repeat.bound_why, HasSubstr("nms / postprocess x1"));
}

TEST(RepeatTest, OneTrialIsItself) {
  const Profile one = BuildProfile(Inference({20}));
  const Profile repeat = AggregateTrials({one}, {});
  EXPECT_EQ(WriteProfileJson(repeat), WriteProfileJson(one));
}

TEST(ProfileSummaryTest, HasThePeersShape) {
  const job::Measurement infer = Inference({20, 10, 30, 20});
  ASSERT_OK_AND_ASSIGN(const JsonValue summary,
                       ParseJson(WriteProfileSummary(BuildProfile(infer), infer)));
  std::vector<std::string> keys;
  for (const auto& [key, value] : summary.object()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("meta", "real", "latency", "stages_ms", "bound", "bound_why"));
  keys.clear();
  for (const auto& [key, value] : summary.Find("meta")->object()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("model", "batch", "imgsz", "half", "amp_dtype", "device", "conf",
                                "iou", "max_det", "mode"));
  const job::Measurement train = Training();
  ASSERT_OK_AND_ASSIGN(const JsonValue training,
                       ParseJson(WriteProfileSummary(BuildProfile(train), train)));
  keys.clear();
  for (const auto& [key, value] : training.object()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("meta", "window", "real", "composition_ms", "composition_total_ms",
                                "bound", "bound_why", "trace", "analysis"));
  keys.clear();
  for (const auto& [key, value] : training.Find("composition_ms")->object()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("to_device", "forward", "backward", "optimizer"));
  EXPECT_EQ(training.Find("real")->Find("compute_ms")->number(), 198.0);
}

TEST(LoadProfileTest, AWindowNeedsATrace) {
  LoadOptions options;
  options.window = WindowRange{0, 1};
  const std::string profile = WriteProfileJson(BuildProfile(Inference({20})));
  EXPECT_THAT(LoadProfileFromBytes(profile, "", options),
              ::libreyolo::testing::FailsWith(reason::kArgumentConflict));
}

TEST(LoadProfileTest, AProfileInAnotherOrderIsOne) {
  ASSERT_OK_AND_ASSIGN(JsonValue json, ParseJson(WriteProfileJson(BuildProfile(Inference({20})))));
  auto& members = json.object();
  std::rotate(members.begin(), members.begin() + 1, members.end());  // the schema goes last
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadProfileFromBytes(json.ToIndented(), ""));
  EXPECT_EQ(profile.step_ms, 20.0);
}

TEST(LoadProfileTest, ASummaryOfAnotherTraceIsNotUsed) {
  const std::string trace =
      R"([{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":9}])";
  const std::string summary = R"({"real":{"step_ms":5.0},"trace":"x/profile_trace.json"})";
  LoadOptions options;
  options.shown_name = "runs/other.json";
  ASSERT_OK_AND_ASSIGN(const Profile other, LoadProfileFromBytes(trace, summary, options));
  EXPECT_EQ(other.step_ms, 0.01) << "9 us by the trace itself";
  EXPECT_EQ(other.findings.back().code, "SUMMARY_IGNORED");
  options.shown_name = "runs/profile_trace.json.gz";
  ASSERT_OK_AND_ASSIGN(const Profile same, LoadProfileFromBytes(trace, summary, options));
  EXPECT_EQ(same.step_ms, 5.0);
}

TEST(WindowRangeTest, Parses) {
  ASSERT_OK_AND_ASSIGN(const WindowRange both, ParseWindowRange("2:8"));
  EXPECT_EQ(both.begin, 2);
  EXPECT_EQ(both.end, 8);
  ASSERT_OK_AND_ASSIGN(const WindowRange open, ParseWindowRange("1:"));
  EXPECT_FALSE(open.end.has_value());
  for (const char* bad : {"", "3", "a:b", "-1:3", "3:3", "4:2", "1:2:3"}) {
    EXPECT_THAT(ParseWindowRange(bad), ::libreyolo::testing::FailsWith(reason::kArgumentInvalid))
        << bad;
  }
}

}  // namespace
}  // namespace libreyolo::analysis
