#include "server/worker/workload/infer_workload.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/capture/capture_session.h"
#include "server/worker/data/image_source.h"
#include "server/worker/workload/infer_pipeline.h"
#include "server/worker/workload/measured_run.h"
#include "server/worker/workload/step_memory.h"
#include "server/worker/workload/step_timer.h"

namespace libreyolo::worker {
namespace {

using worker_link::WorkerPlan;
using worker_link::WorkerStage;

constexpr int kMaxTracedSteps = 10;
constexpr int64_t kMaxTracedNs = 5'000'000'000;

// The stages of a step, in order.
enum Stage : size_t { kPreprocess, kForward, kPostprocess };
std::vector<std::string> StageNames() { return {"preprocess", "forward", "postprocess"}; }

class InferWorkload : public Workload {
 public:
  InferWorkload(const WorkerPlan& plan, const WorkloadDeps& deps)
      : plan_(plan),
        deps_(deps),
        traced_steps_wanted_(std::min(plan.runs, kMaxTracedSteps)),
        run_(plan_, deps_) {}

  absl::StatusOr<job::Measurement> Run() override;

 private:
  absl::Status Measure();
  absl::Status Prepare();
  absl::StatusOr<std::unique_ptr<InferPipeline>> MakePipeline(int batch) const;
  absl::StatusOr<int64_t> PeakMemoryOfIteration(int batch);
  absl::StatusOr<std::vector<std::string>> FindImages();
  void DescribePlan();
  absl::Status WarmUp();
  absl::Status MeasureUntraced();
  absl::Status MeasureStages(CaptureSession* capture);
  absl::Status RunTimedSteps(StepTimer& timer);
  // One iteration; returns its detections. `timer` may be null.
  absl::StatusOr<int64_t> RunIteration(int64_t index, StepTimer* timer);

  const WorkerPlan plan_;
  const WorkloadDeps deps_;
  const int traced_steps_wanted_;
  MeasuredRun run_;
  std::vector<std::string> images_;
  std::unique_ptr<InferPipeline> pipeline_;
};

absl::StatusOr<std::vector<std::string>> InferWorkload::FindImages() {
  std::vector<std::string> images;
  int unsupported_count = 0;
  for (const std::string& path : plan_.source_paths) {
    LY_ASSIGN_OR_RETURN(data::ImageList list,
                        data::ListImages(path, data::Fence(plan_.data_roots)));
    std::move(list.paths.begin(), list.paths.end(), std::back_inserter(images));
    unsupported_count += list.unsupported_count;
  }
  if (unsupported_count > 0) {
    run_.AddFinding(job::Finding::Severity::kInfo, "SOURCE_SKIPPED",
                    absl::StrCat(unsupported_count,
                                 " pictures of unsupported kinds (GIF, TIFF, PFM) were left out"));
  }
  return images;
}

void InferWorkload::DescribePlan() {
  job::Measurement& result = run_.result();
  result.half_requested = plan_.half;
  result.half = plan_.half;
  result.conf = plan_.conf;
  result.iou = plan_.iou;
  result.max_det = plan_.max_det;
}

absl::Status InferWorkload::Prepare() {
  DescribePlan();
  deps_.observer.OnStage(WorkerStage::kStarting, "loading weights");
  // The cheap checks first: a wrong path should not wait for a model.
  LY_ASSIGN_OR_RETURN(images_, FindImages());
  run_.result().source_count = std::max<int>(1, static_cast<int>(images_.size()));
  LY_RETURN_IF_ERROR(run_.OpenDevice());
  if (plan_.half && run_.device().is_cpu()) {
    return MakeError(reason::kArgumentConflict, "--half needs a CUDA device; this job runs on cpu",
                     {"leave out --half", "name a GPU: --device 0"});
  }
  LY_ASSIGN_OR_RETURN(pipeline_, MakePipeline(plan_.batch));
  run_.DescribeModel(pipeline_->model());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<InferPipeline>> InferWorkload::MakePipeline(int batch) const {
  return InferPipeline::Make({.weights_path = plan_.weights_path,
                              .size = plan_.size,
                              .images = images_,
                              .batch = batch,
                              .imgsz = RoundUpToStride(plan_.imgsz),
                              .half = plan_.half,
                              .amp_dtype = plan_.amp_dtype,
                              .conf = plan_.conf,
                              .iou = plan_.iou,
                              .max_det = plan_.max_det},
                             run_.device());
}

absl::StatusOr<int64_t> InferWorkload::PeakMemoryOfIteration(int batch) {
  LY_RETURN_IF_ERROR(run_.CheckCancelled());
  deps_.observer.OnStage(WorkerStage::kStarting, absl::StrCat("trying a batch of ", batch));
  pipeline_.reset();
  const StepMemory memory(run_.device(), deps_.host);
  LY_RETURN_IF_ERROR(memory.Reset());
  LY_ASSIGN_OR_RETURN(pipeline_, MakePipeline(batch));
  LY_RETURN_IF_ERROR(RunIteration(0, nullptr).status());
  return memory.PeakBytes();
}

absl::StatusOr<int64_t> InferWorkload::RunIteration(int64_t index, StepTimer* timer) {
  if (timer != nullptr) timer->BeginPhase(kPreprocess);
  LY_RETURN_IF_ERROR(pipeline_->Preprocess(index));
  if (timer != nullptr) {
    timer->EndPhase(kPreprocess);
    timer->BeginPhase(kForward);
  }
  LY_RETURN_IF_ERROR(pipeline_->Forward());
  if (timer != nullptr) {
    LY_RETURN_IF_ERROR(run_.Synchronize());
    timer->EndPhase(kForward);
    timer->BeginPhase(kPostprocess);
  }
  LY_ASSIGN_OR_RETURN(const int64_t detections, pipeline_->Postprocess());
  LY_RETURN_IF_ERROR(run_.Synchronize());
  if (timer != nullptr) timer->EndPhase(kPostprocess);
  return detections;
}

absl::Status InferWorkload::WarmUp() {
  deps_.observer.OnStage(WorkerStage::kWarmingUp, "");
  for (int i = 0; i < plan_.warmup; ++i) {
    LY_RETURN_IF_ERROR(run_.CheckCancelled());
    LY_RETURN_IF_ERROR(RunIteration(i, nullptr).status());
    deps_.observer.OnProgress("warm-up", i + 1, plan_.warmup);
  }
  return absl::OkStatus();
}

absl::Status InferWorkload::MeasureUntraced() {
  deps_.observer.OnStage(WorkerStage::kMeasuring, "latencies, without a tracer");
  job::Measurement& result = run_.result();
  result.latencies_ns.reserve(static_cast<size_t>(plan_.runs));
  LY_RETURN_IF_ERROR(run_.BeginUntraced());
  const int64_t window_begin_ns = MonotonicNs();
  int64_t window_end_ns = window_begin_ns;
  for (int i = 0; i < plan_.runs; ++i) {
    LY_RETURN_IF_ERROR(run_.CheckCancelled());
    const int64_t begin_ns = MonotonicNs();
    LY_ASSIGN_OR_RETURN(const int64_t detections, RunIteration(plan_.warmup + i, nullptr));
    window_end_ns = MonotonicNs();
    result.latencies_ns.push_back(window_end_ns - begin_ns);
    result.detections += detections;
    deps_.observer.OnProgress("measure", i + 1, plan_.runs);
  }
  result.untraced_wall_ns = window_end_ns - window_begin_ns;
  result.images_processed = int64_t{plan_.runs} * plan_.batch;
  return run_.EndUntraced();
}

absl::Status InferWorkload::RunTimedSteps(StepTimer& timer) {
  const int64_t window_begin_ns = MonotonicNs();
  for (int i = 0; i < traced_steps_wanted_; ++i) {
    LY_RETURN_IF_ERROR(run_.CheckCancelled());
    timer.BeginStep();
    LY_RETURN_IF_ERROR(RunIteration(plan_.warmup + plan_.runs + i, &timer).status());
    timer.EndStep();
    deps_.observer.OnProgress("trace", i + 1, traced_steps_wanted_);
    if (MonotonicNs() - window_begin_ns > kMaxTracedNs) break;
  }
  return absl::OkStatus();
}

absl::Status InferWorkload::MeasureStages(CaptureSession* capture) {
  deps_.observer.OnStage(WorkerStage::kMeasuring,
                         capture != nullptr ? "stages, with a trace" : "stages");
  StepTimer timer(deps_.clock, StageNames(), traced_steps_wanted_);
  // The first iteration after the pause between the windows is slow: it belongs to neither.
  LY_RETURN_IF_ERROR(RunIteration(plan_.warmup + plan_.runs, nullptr).status());
  if (capture != nullptr) {
    LY_RETURN_IF_ERROR(capture->Start());
    timer.TellPhasesTo(*capture);
    // A tracer's first step on a GPU pays for its set-up: it stays outside of the marks.
    if (!run_.device().is_cpu()) {
      LY_RETURN_IF_ERROR(RunIteration(plan_.warmup + plan_.runs, nullptr).status());
    }
  }
  const ClockPair begin = ReadClockPair(deps_.clock);
  LY_RETURN_IF_ERROR(RunTimedSteps(timer));
  const ClockLine line(deps_.clock, begin, ReadClockPair(deps_.clock));
  if (capture != nullptr) {
    LY_ASSIGN_OR_RETURN(const CaptureCounts counts, capture->Stop());
    run_.DescribeCapture(counts);
    timer.AddMarks(plan_.warmup, *capture);
  }
  run_.result().traced_steps = timer.Steps(line);
  return absl::OkStatus();
}

absl::StatusOr<job::Measurement> InferWorkload::Run() {
  // Gradients off for good. The ops are those of no-grad mode; what it saves is their bookkeeping.
  const c10::InferenceMode inference_mode;
  absl::Status measured = Measure();
  if (measured.ok()) return std::move(run_.result());
  return run_.NameFittingBatch(measured, plan_.batch,
                               [this](int batch) { return PeakMemoryOfIteration(batch); });
}

absl::Status InferWorkload::Measure() {
  LY_RETURN_IF_ERROR(Prepare());
  LY_RETURN_IF_ERROR(WarmUp());
  LY_RETURN_IF_ERROR(MeasureUntraced());
  std::optional<CaptureSession> capture;
  if (plan_.trace) {
    capture.emplace(
        CaptureSession::Options{.clock = deps_.clock, .expects_kernels = !run_.device().is_cpu()},
        deps_.activities);
  }
  LY_RETURN_IF_ERROR(MeasureStages(capture ? &*capture : nullptr));
  LY_RETURN_IF_ERROR(run_.Conclude(traced_steps_wanted_));
  return capture ? run_.WriteTrace(*capture) : absl::OkStatus();
}

}  // namespace

std::unique_ptr<Workload> MakeInferWorkload(const WorkerPlan& plan, const WorkloadDeps& deps) {
  return std::make_unique<InferWorkload>(plan, deps);
}

}  // namespace libreyolo::worker
