// Real runs of the smallest setup: YOLO9-t with initial weights on 64 x 64 pixels.
#include "server/worker/workload/infer_workload.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/job/measurement_json.h"
#include "server/worker/capture/null_source.h"
#include "server/worker/data/image_source.h"
#include "server/worker/workload/measured_run.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using worker_link::WorkerPlan;
using worker_link::WorkerStage;

class RecordingObserver : public WorkloadObserver {
 public:
  void OnStage(WorkerStage stage, absl::string_view) override { stages.push_back(stage); }
  void OnProgress(absl::string_view stage, int64_t done, int64_t total) override {
    const std::string name(stage);
    if (names.empty() || names.back() != name) names.push_back(name);
    EXPECT_LE(done, total);
    if (name == "measure" && at::hasGlobalCallbacks()) observed_while_measuring = true;
    if (name == "trace" && at::hasGlobalCallbacks()) observed_while_tracing = true;
    ++progress_count;
    if (progress_count == cancel_at) cancelled = true;
  }
  bool IsCancelled() const override { return cancelled; }

  std::vector<WorkerStage> stages;
  std::vector<std::string> names;
  int progress_count = 0;
  int cancel_at = -1;
  bool cancelled = false;
  bool observed_while_measuring = false;
  bool observed_while_tracing = false;
};

class InferWorkloadTest : public ::testing::Test {
 protected:
  InferWorkloadTest() : folder_(::testing::TempDir() + "/infer_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    plan_.job_id = "j1";
    plan_.staging_dir = folder_;
    plan_.device = "cpu";
    plan_.threads = 1;
    plan_.weights = "random";
    plan_.imgsz = 64;
    plan_.warmup = 2;
    plan_.runs = 3;
  }
  ~InferWorkloadTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<job::Measurement> Run() {
    return MakeInferWorkload(plan_, {observer_, source_, host_, ChooseClock()})->Run();
  }
  std::string TracePath() const { return folder_ + "/" + kTraceFileName; }
  std::string AddImage(const std::string& name) {
    const std::string path = folder_ + "/" + name;
    EXPECT_OK(WriteFile(path, data::SampleImageJpeg()));
    return path;
  }

  std::string folder_;
  WorkerPlan plan_;
  RecordingObserver observer_;
  NullSource source_;
  HostProbe host_;
};

std::set<std::string> Codes(const job::Measurement& m) {
  std::set<std::string> codes;
  for (const job::Finding& finding : m.findings) codes.insert(finding.code);
  return codes;
}

// Lets the process take so much more memory, and lifts that again.
class MemoryAllowance {
 public:
  explicit MemoryAllowance(rlim_t more_bytes) {
    const std::string status = ReadFile("/proc/self/status").value_or("");
    const size_t at = status.find("VmData:");
    const rlim_t now = std::stoull(status.substr(at + 7)) * 1024;
    EXPECT_EQ(getrlimit(RLIMIT_DATA, &before_), 0);
    const rlimit allowed{now + more_bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &allowed), 0);
  }
  ~MemoryAllowance() { setrlimit(RLIMIT_DATA, &before_); }

 private:
  rlimit before_{};
};

TEST_F(InferWorkloadTest, OutOfMemoryNamesTheBatchThatFits) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer itself needs memory that the limit refuses";
#endif
  plan_.imgsz = 320;
  plan_.batch = 32;
  plan_.warmup = 1;
  const MemoryAllowance allowance(rlim_t{120} << 20);
  const auto measured = Run();
  ASSERT_THAT(measured, FailsWith(reason::kOutOfMemory));
  const ErrorDetail detail = GetErrorDetail(measured.status());
  ASSERT_EQ(detail.metadata.back().first, "fitting_batch");
  const int fitting = std::stoi(detail.metadata.back().second);
  EXPECT_GE(fitting, 1);
  EXPECT_LT(fitting, 32);
  EXPECT_THAT(detail.hints.front(), HasSubstr(absl::StrCat("--batch ", fitting, " fits")));
}

TEST_F(InferWorkloadTest, OutOfMemoryBeforeTheDeviceIsOpenStands) {
  const WorkloadDeps deps{observer_, source_, host_, ChooseClock()};
  const MeasuredRun run(plan_, deps);
  const absl::Status full = MakeError(reason::kOutOfMemory, "out of memory: CUDA");
  const absl::Status told = run.NameFittingBatch(full, 8, [](int) -> absl::StatusOr<int64_t> {
    ADD_FAILURE() << "there is nothing to try it on";
    return 0;
  });
  EXPECT_EQ(told, full);
}

TEST_F(InferWorkloadTest, MeasuresEveryRun) {
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.mode, job::Mode::kInfer);
  ASSERT_EQ(m.latencies_ns.size(), 3u);
  int64_t sum_ns = 0;
  for (const int64_t latency : m.latencies_ns) {
    EXPECT_GT(latency, 0);
    sum_ns += latency;
  }
  EXPECT_GE(m.untraced_wall_ns, sum_ns);
  EXPECT_EQ(m.images_processed, 3);
  EXPECT_EQ(m.source, "sample");
  EXPECT_EQ(m.source_count, 1);
  EXPECT_EQ(m.device, "cpu");
  EXPECT_EQ(m.device_name, m.environment.cpu_model);
  EXPECT_EQ(m.environment.threads, 1);
  EXPECT_EQ(m.environment.torch_version, "2.11.0");
  EXPECT_GT(m.peak_rss_bytes, 50 << 20);
  EXPECT_FALSE(m.peak_vram_bytes.has_value());
  EXPECT_TRUE(m.model.random_weights);
  EXPECT_EQ(m.model.size, "t");
  EXPECT_EQ(m.model.parameter_count, 2'036'544);
  EXPECT_EQ(Codes(m).count("RANDOM_WEIGHTS"), 1u);
  EXPECT_EQ(Codes(m).count("IMGSZ_ROUNDED"), 0u);
}

TEST_F(InferWorkloadTest, StagesFillTheSecondWindow) {
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  ASSERT_EQ(m.traced_steps.size(), 3u);
  for (const job::TracedStep& step : m.traced_steps) {
    std::vector<std::string> names;
    int64_t sum_ns = 0;
    for (const auto& [name, ns] : step.phases_ns) {
      names.push_back(name);
      EXPECT_GT(ns, 0) << name;
      sum_ns += ns;
    }
    EXPECT_THAT(names, ElementsAre("preprocess", "forward", "postprocess"));
    EXPECT_LE(sum_ns, step.duration_ns);
    EXPECT_GT(sum_ns, step.duration_ns / 2);  // nothing big lies outside the stages
  }
}

TEST_F(InferWorkloadTest, NoTracerExistsWhileLatenciesAreTaken) {
  ASSERT_OK(Run());
  EXPECT_FALSE(observer_.observed_while_measuring);
  EXPECT_TRUE(observer_.observed_while_tracing);
  EXPECT_THAT(observer_.names, ElementsAre("warm-up", "measure", "trace"));
  EXPECT_THAT(observer_.stages, ElementsAre(WorkerStage::kStarting, WorkerStage::kWarmingUp,
                                            WorkerStage::kMeasuring, WorkerStage::kMeasuring));
}

TEST_F(InferWorkloadTest, TheTraceHoldsStepsOpsAndTheMeasurement) {
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_TRUE(m.traced);
  EXPECT_GT(m.op_records, 3 * 1000);
  EXPECT_EQ(m.dropped_records, 0);
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(TracePath()));
  ASSERT_OK_AND_ASSIGN(const JsonValue trace, ParseJson(text));
  std::vector<std::string> marks;
  int64_t ops = 0;
  int64_t convolutions = 0;
  for (const JsonValue& event : trace.Find("traceEvents")->array()) {
    const JsonValue* category = event.Find("cat");
    if (category == nullptr) continue;
    const std::string& name = event.Find("name")->string_value();
    if (category->string_value() == "user_annotation") marks.push_back(name);
    if (category->string_value() == "cpu_op") ++ops;
    if (name == "aten::conv2d") ++convolutions;
  }
  EXPECT_THAT(marks,
              ElementsAre("ProfilerStep#2", "step/preprocess", "step/forward", "step/postprocess",
                          "ProfilerStep#3", "step/preprocess", "step/forward", "step/postprocess",
                          "ProfilerStep#4", "step/preprocess", "step/forward", "step/postprocess"));
  EXPECT_EQ(ops, m.op_records);
  EXPECT_EQ(convolutions, 3 * 227);
  const JsonValue& ours = *trace.Find("libreyolo");
  EXPECT_EQ(ours.Find("schema")->string_value(), "libreyolo.trace/v1");
  ASSERT_OK_AND_ASSIGN(const job::Measurement back,
                       job::MeasurementFromJson(*ours.Find("measurement")));
  EXPECT_EQ(back.latencies_ns, m.latencies_ns);
  EXPECT_EQ(back.op_records, m.op_records);
}

TEST_F(InferWorkloadTest, AtMostTenIterationsAreTraced) {
  plan_.imgsz = 32;
  plan_.runs = 12;
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.latencies_ns.size(), 12u);
  EXPECT_EQ(m.traced_steps.size(), 10u);
}

TEST_F(InferWorkloadTest, WithoutATraceNothingIsRecordedOrWritten) {
  plan_.trace = false;
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_FALSE(m.traced);
  EXPECT_EQ(m.op_records, 0);
  EXPECT_EQ(m.traced_steps.size(), 3u);
  EXPECT_FALSE(observer_.observed_while_tracing);
  EXPECT_NE(access(TracePath().c_str(), F_OK), 0);
}

TEST_F(InferWorkloadTest, RoundsTheImageSizeUpAndSaysSo) {
  plan_.imgsz = 33;
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.imgsz, 64);
  EXPECT_EQ(m.imgsz_requested, 33);
  EXPECT_EQ(Codes(m).count("IMGSZ_ROUNDED"), 1u);
}

TEST_F(InferWorkloadTest, TakesBatchesFromAFolder) {
  AddImage("b.jpg");
  AddImage("a.jpg");
  AddImage("c.gif");
  plan_.source = "pictures";
  plan_.source_paths = {folder_};
  plan_.batch = 3;
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.source, "pictures");
  EXPECT_EQ(m.source_count, 2);
  EXPECT_EQ(m.images_processed, 9);
  EXPECT_EQ(Codes(m).count("SOURCE_SKIPPED"), 1u);
}

TEST_F(InferWorkloadTest, ConfidenceZeroKeepsDetections) {
  plan_.conf = 0;
  plan_.max_det = 7;
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.detections, 3 * 7);
}

TEST_F(InferWorkloadTest, LoadsACheckpoint) {
  const std::string path =
      std::string(LIBREYOLO_SHARED_DIR) + "/fixtures/yolo9/ckpt/yolo9t_nc2_views.pt";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "no shared fixtures here";
  plan_.weights = "LibreYOLO9t.pt";
  plan_.weights_path = path;
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_FALSE(m.model.random_weights);
  EXPECT_EQ(m.model.weights, "LibreYOLO9t.pt");
  EXPECT_EQ(m.model.class_count, 2);
  EXPECT_EQ(m.model.weights_digest.size(), 64u);  // the plan had none
}

TEST_F(InferWorkloadTest, SaysWhereThereIsNoImage) {
  plan_.source_paths = {folder_};  // empty
  EXPECT_THAT(Run(), FailsWith(reason::kSourceNotFound));
  plan_.source_paths = {folder_ + "/nothing.jpg"};
  EXPECT_THAT(Run(), FailsWith(reason::kSourceNotFound));
}

TEST_F(InferWorkloadTest, NamesABrokenImage) {
  plan_.source_paths = {folder_ + "/broken.jpg"};
  ASSERT_OK(WriteFile(plan_.source_paths[0], data::SampleImageJpeg().substr(0, 4000)));
  const absl::Status status = Run().status();
  EXPECT_THAT(status, FailsWith(reason::kSourceUnreadable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("broken.jpg"));
}

TEST_F(InferWorkloadTest, RefusesHalfOnTheCpu) {
  plan_.half = true;
  EXPECT_THAT(Run(), FailsWith(reason::kArgumentConflict));
}

TEST_F(InferWorkloadTest, RefusesAnUnknownDeviceAndSize) {
  plan_.device = "toaster";
  EXPECT_THAT(Run(), FailsWith(reason::kArgumentInvalid));
  plan_.device = "cpu";
  plan_.size = "zzz";
  EXPECT_FALSE(Run().ok());
}

TEST_F(InferWorkloadTest, EndsWhenCancelledInAnyWindow) {
  for (const int at : {1, 3, 6}) {  // warm-up, measure, trace
    RecordingObserver observer;
    observer.cancel_at = at;
    const auto result = MakeInferWorkload(plan_, {observer, source_, host_, ChooseClock()})->Run();
    EXPECT_THAT(result, FailsWith(reason::kCancelled));
    EXPECT_EQ(observer.progress_count, at);
    EXPECT_FALSE(at::hasGlobalCallbacks());
  }
}

TEST_F(InferWorkloadTest, ATraceThatCannotBeWrittenFailsTheJob) {
  plan_.staging_dir = folder_ + "/gone";
  EXPECT_THAT(Run(), FailsWith(reason::kStoreFailed));
}

}  // namespace
}  // namespace libreyolo::worker
