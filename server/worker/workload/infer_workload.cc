#include "server/worker/workload/infer_workload.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/job/measurement_json.h"
#include "common/trace/trace_writer.h"
#include "server/worker/capture/capture_session.h"
#include "server/worker/data/image_source.h"
#include "server/worker/torch_call.h"
#include "server/worker/workload/compute_device.h"
#include "server/worker/workload/findings.h"
#include "server/worker/workload/infer_pipeline.h"
#include "server/worker/workload/step_timer.h"
#include "server/worker/yolo9/variants.h"

namespace libreyolo::worker {
namespace {

using worker_link::WorkerPlan;
using worker_link::WorkerStage;

constexpr int kMaxTracedSteps = 10;
constexpr int64_t kMaxTracedNs = 5'000'000'000;

// The stages of a step, in order.
enum Stage : size_t { kPreprocess, kForward, kPostprocess };
std::vector<std::string> StageNames() { return {"preprocess", "forward", "postprocess"}; }

int RoundUpToStride(int imgsz) {
  return (imgsz + yolo9::kMaxStride - 1) / yolo9::kMaxStride * yolo9::kMaxStride;
}

class InferWorkload : public Workload {
 public:
  InferWorkload(const WorkerPlan& plan, const WorkloadDeps& deps)
      : plan_(plan), deps_(deps), traced_steps_wanted_(std::min(plan.runs, kMaxTracedSteps)) {}

  absl::StatusOr<job::Measurement> Run() override;

 private:
  absl::Status Prepare();
  absl::StatusOr<std::vector<std::string>> FindImages();
  void DescribePlan();
  void DescribeModel();
  absl::Status WarmUp();
  absl::Status MeasureUntraced();
  absl::Status MeasureStages(CaptureSession* capture);
  absl::Status RunTimedSteps(StepTimer& timer);
  absl::Status Conclude();
  absl::Status WriteTrace(const CaptureSession& capture);
  // One iteration; returns its detections. `timer` may be null.
  absl::StatusOr<int64_t> RunIteration(int64_t index, StepTimer* timer);
  absl::Status CheckCancelled() const;
  // Waits for the device; nothing to do on the CPU.
  absl::Status Synchronize() const;

  const WorkerPlan plan_;
  const WorkloadDeps deps_;
  const int traced_steps_wanted_;
  std::optional<ComputeDevice> device_;
  std::unique_ptr<InferPipeline> pipeline_;
  CpuUsage cpu_usage_;
  job::Measurement result_;
};

absl::Status InferWorkload::CheckCancelled() const {
  if (!deps_.observer.IsCancelled()) return absl::OkStatus();
  return MakeError(reason::kCancelled, "the job was cancelled");
}

absl::Status InferWorkload::Synchronize() const {
  if (device_->is_cpu()) return absl::OkStatus();
  return CallTorch([this] { device_->Synchronize(); });
}

absl::StatusOr<std::vector<std::string>> InferWorkload::FindImages() {
  std::vector<std::string> images;
  int unsupported_count = 0;
  for (const std::string& path : plan_.source_paths) {
    LY_ASSIGN_OR_RETURN(data::ImageList list, data::ListImages(path));
    std::move(list.paths.begin(), list.paths.end(), std::back_inserter(images));
    unsupported_count += list.unsupported_count;
  }
  if (unsupported_count > 0) {
    result_.findings.push_back({job::Finding::Severity::kInfo, "SOURCE_SKIPPED",
                                absl::StrCat(unsupported_count,
                                             " pictures of unsupported kinds (GIF, TIFF, PFM) were "
                                             "left out")});
  }
  return images;
}

void InferWorkload::DescribePlan() {
  result_.mode = job::Mode::kInfer;
  result_.batch = plan_.batch;
  result_.imgsz = RoundUpToStride(plan_.imgsz);
  result_.imgsz_requested = plan_.imgsz;
  result_.warmup = plan_.warmup;
  result_.runs = plan_.runs;
  result_.half_requested = plan_.half;
  result_.half = plan_.half;
  result_.amp_dtype = plan_.amp_dtype;
  result_.conf = plan_.conf;
  result_.iou = plan_.iou;
  result_.max_det = plan_.max_det;
  result_.source = plan_.source_paths.empty() ? "sample" : plan_.source;
  result_.model.weights = plan_.weights;
  result_.model.weights_path = plan_.weights_path;
  result_.model.weights_digest = plan_.weights_digest;
  result_.model.random_weights = plan_.weights_path.empty();
  result_.traced = plan_.trace;
  // What the machine is like before we load it.
  result_.environment = deps_.host.Describe();
  result_.environment.torch_version = TORCH_VERSION;
  result_.environment.clock = Name(deps_.clock);
}

void InferWorkload::DescribeModel() {
  const yolo9::LoadedModel& model = pipeline_->model();
  result_.model.size = model.size;
  result_.model.class_count = model.class_count;
  result_.model.parameter_count = model.parameter_count;
  result_.model.letterbox = model.letterbox == yolo9::LetterboxPad::kCenter ? "center" : "topleft";
  for (const std::string& text : model.findings) {
    result_.findings.push_back({job::Finding::Severity::kInfo, "WEIGHTS_UNUSUAL", text});
  }
}

absl::Status InferWorkload::Prepare() {
  DescribePlan();
  deps_.observer.OnStage(WorkerStage::kStarting, "loading weights");
  // The cheap checks first: a wrong path should not wait for a model.
  LY_ASSIGN_OR_RETURN(std::vector<std::string> images, FindImages());
  result_.source_count = std::max<int>(1, static_cast<int>(images.size()));
  LY_ASSIGN_OR_RETURN(device_, ComputeDevice::Open(plan_.device));
  if (plan_.half && device_->is_cpu()) {
    return MakeError(reason::kArgumentConflict, "--half needs a CUDA device; this job runs on cpu",
                     {"leave out --half", "name a GPU: --device 0"});
  }
  result_.device = device_->name();
  result_.device_name = device_->is_cpu() ? result_.environment.cpu_model : device_->name();
  const int threads = plan_.threads > 0 ? plan_.threads : deps_.host.DefaultThreads();
  LY_RETURN_IF_ERROR(CallTorch([threads] { at::set_num_threads(threads); }));
  result_.environment.threads = at::get_num_threads();

  LY_ASSIGN_OR_RETURN(pipeline_, InferPipeline::Make({.weights_path = plan_.weights_path,
                                                      .size = plan_.size,
                                                      .images = std::move(images),
                                                      .batch = plan_.batch,
                                                      .imgsz = result_.imgsz,
                                                      .half = plan_.half,
                                                      .amp_dtype = plan_.amp_dtype,
                                                      .conf = plan_.conf,
                                                      .iou = plan_.iou,
                                                      .max_det = plan_.max_det},
                                                     *device_));
  DescribeModel();
  return absl::OkStatus();
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
    LY_RETURN_IF_ERROR(Synchronize());
    timer->EndPhase(kForward);
    timer->BeginPhase(kPostprocess);
  }
  LY_ASSIGN_OR_RETURN(const int64_t detections, pipeline_->Postprocess());
  LY_RETURN_IF_ERROR(Synchronize());
  if (timer != nullptr) timer->EndPhase(kPostprocess);
  return detections;
}

absl::Status InferWorkload::WarmUp() {
  deps_.observer.OnStage(WorkerStage::kWarmingUp, "");
  for (int i = 0; i < plan_.warmup; ++i) {
    LY_RETURN_IF_ERROR(CheckCancelled());
    LY_RETURN_IF_ERROR(RunIteration(i, nullptr).status());
    deps_.observer.OnProgress("warm-up", i + 1, plan_.warmup);
  }
  return absl::OkStatus();
}

absl::Status InferWorkload::MeasureUntraced() {
  deps_.observer.OnStage(WorkerStage::kMeasuring, "latencies, without a tracer");
  result_.latencies_ns.reserve(static_cast<size_t>(plan_.runs));
  LY_RETURN_IF_ERROR(CallTorch([this] { device_->ResetPeakMemory(); }));
  const CpuSample cpu_before = deps_.host.SampleCpu();
  const int64_t window_begin_ns = MonotonicNs();
  int64_t window_end_ns = window_begin_ns;
  for (int i = 0; i < plan_.runs; ++i) {
    LY_RETURN_IF_ERROR(CheckCancelled());
    const int64_t begin_ns = MonotonicNs();
    LY_ASSIGN_OR_RETURN(const int64_t detections, RunIteration(plan_.warmup + i, nullptr));
    window_end_ns = MonotonicNs();
    result_.latencies_ns.push_back(window_end_ns - begin_ns);
    result_.detections += detections;
    deps_.observer.OnProgress("measure", i + 1, plan_.runs);
  }
  cpu_usage_ = CompareCpu(cpu_before, deps_.host.SampleCpu());
  result_.untraced_wall_ns = window_end_ns - window_begin_ns;
  result_.images_processed = int64_t{plan_.runs} * plan_.batch;
  // Read here: the records of a capture are not part of what the model needs.
  result_.peak_rss_bytes = PeakResidentBytes();
  return CallTorch([this] { result_.peak_vram_bytes = device_->PeakMemoryBytes(); });
}

absl::Status InferWorkload::RunTimedSteps(StepTimer& timer) {
  const int64_t window_begin_ns = MonotonicNs();
  for (int i = 0; i < traced_steps_wanted_; ++i) {
    LY_RETURN_IF_ERROR(CheckCancelled());
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
  if (capture != nullptr) LY_RETURN_IF_ERROR(capture->Start());
  const ClockPair begin = ReadClockPair(deps_.clock);
  LY_RETURN_IF_ERROR(RunTimedSteps(timer));
  const ClockLine line(deps_.clock, begin, ReadClockPair(deps_.clock));
  if (capture != nullptr) {
    LY_ASSIGN_OR_RETURN(const CaptureCounts counts, capture->Stop());
    result_.op_records = counts.op_count;
    result_.dropped_records = counts.dropped_count;
    timer.AddMarks(plan_.warmup, *capture);
  }
  result_.traced_steps = timer.Steps(line);
  return absl::OkStatus();
}

absl::Status InferWorkload::Conclude() {
  result_.environment.load_after = deps_.host.LoadAverage();
  if (cpu_usage_.is_meaningful) {
    result_.environment.foreign_cpu_ratio = cpu_usage_.foreign_ratio;
    result_.environment.steal_ratio = cpu_usage_.steal_ratio;
  }
  // After the measurement: nobody waits for it before the first iteration.
  if (!plan_.weights_path.empty() && plan_.weights_digest.empty()) {
    LY_ASSIGN_OR_RETURN(result_.model.weights_digest, Sha256HexOfFile(plan_.weights_path));
  }
  std::vector<job::Finding> findings =
      FindInMeasurement(result_, cpu_usage_.is_meaningful, traced_steps_wanted_);
  std::move(findings.begin(), findings.end(), std::back_inserter(result_.findings));
  return absl::OkStatus();
}

absl::Status InferWorkload::WriteTrace(const CaptureSession& capture) {
  JsonValue metadata;
  metadata.Set("schema", trace::kTraceSchema);
  metadata.Set("measurement", job::MeasurementToJson(result_));
  const TraceNames names{.trace = kTraceFileName,
                         .process = "libreyolo-worker",
                         .labels = device_->is_cpu() ? "CPU" : "CPU, GPU",
                         .device_properties = {}};
  const std::string path = absl::StrCat(plan_.staging_dir, "/", kTraceFileName);
  const absl::Status written = capture.WriteTrace(path, names, metadata);
  if (written.ok()) return written;
  return MakeError(reason::kStoreFailed,
                   absl::StrCat("the trace is not stored: ", written.message()),
                   {"free space in the store, or measure with --no-trace"});
}

absl::StatusOr<job::Measurement> InferWorkload::Run() {
  // Gradients off for good. The ops are those of no-grad mode; what it saves is their bookkeeping.
  const c10::InferenceMode inference_mode;
  LY_RETURN_IF_ERROR(Prepare());
  LY_RETURN_IF_ERROR(WarmUp());
  LY_RETURN_IF_ERROR(MeasureUntraced());
  std::optional<CaptureSession> capture;
  if (plan_.trace) {
    capture.emplace(CaptureSession::Options{.clock = deps_.clock}, deps_.activities);
  }
  LY_RETURN_IF_ERROR(MeasureStages(capture ? &*capture : nullptr));
  LY_RETURN_IF_ERROR(Conclude());
  if (capture) LY_RETURN_IF_ERROR(WriteTrace(*capture));
  return std::move(result_);
}

}  // namespace

std::unique_ptr<Workload> MakeInferWorkload(const WorkerPlan& plan, const WorkloadDeps& deps) {
  return std::make_unique<InferWorkload>(plan, deps);
}

}  // namespace libreyolo::worker
