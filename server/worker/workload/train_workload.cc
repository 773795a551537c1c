#include "server/worker/workload/train_workload.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/capture/capture_session.h"
#include "server/worker/data/dataset.h"
#include "server/worker/data/dataset_yaml.h"
#include "server/worker/data/loader.h"
#include "server/worker/data/sample_dataset.h"
#include "server/worker/workload/batch_probe.h"
#include "server/worker/workload/measured_run.h"
#include "server/worker/workload/step_memory.h"
#include "server/worker/workload/step_timer.h"
#include "server/worker/workload/train_pipeline.h"
#include "server/worker/workload/train_window.h"

namespace libreyolo::worker {
namespace {

using job::Finding;
using worker_link::WorkerPlan;
using worker_link::WorkerStage;

constexpr int kMaxTracedSteps = 25;
// Ops of a training step of size t with its backward: room for the larger sizes.
constexpr int64_t kOpsPerStep = int64_t{1} << 16;
constexpr int64_t kMaxTracedOps = int64_t{1} << 22;
// The schedule's length: the reference trains so many epochs more than the window has iterations.
constexpr int kExtraEpochs = 5;

// The phases of a step, in order.
enum Phase : size_t { kDataload, kToDevice, kForward, kBackward, kOptimizer };
std::vector<std::string> PhaseNames() {
  return {"dataload", "to_device", "forward", "backward", "optimizer"};
}

// Times a phase where there is a timer, with the device's work in it.
class PhaseScope {
 public:
  PhaseScope(StepTimer* timer, Phase phase) : timer_(timer), phase_(phase) {
    if (timer_ != nullptr) timer_->BeginPhase(phase_);
  }
  absl::Status End(const MeasuredRun& run) {
    if (timer_ == nullptr) return absl::OkStatus();
    LY_RETURN_IF_ERROR(run.Synchronize());
    timer_->EndPhase(phase_);
    return absl::OkStatus();
  }

 private:
  StepTimer* const timer_;
  const Phase phase_;
};

class TrainWorkload : public Workload {
 public:
  TrainWorkload(const WorkerPlan& plan, const WorkloadDeps& deps)
      : plan_(plan),
        deps_(deps),
        traced_steps_(std::min(plan.runs / 2, kMaxTracedSteps)),
        untraced_steps_(plan.runs - traced_steps_),
        run_(plan_, deps_) {}

  absl::StatusOr<job::Measurement> Run() override;

 private:
  absl::Status Measure();
  absl::Status Prepare();
  void DescribePlan();
  absl::Status ReadDataset();
  void DescribeDataset();
  absl::Status PickBatch();
  absl::StatusOr<int64_t> PeakMemoryOfStep(int batch);
  TrainWindow Window() const;
  TrainPipeline::Options PipelineOptions(int batch) const;
  data::LoaderOptions LoaderOptions(int batch, int workers) const;

  absl::Status WarmUp();
  absl::Status MeasureUntraced();
  absl::Status MeasurePhases(CaptureSession* capture);
  absl::Status RunTimedSteps(StepTimer& timer);
  // One step; returns the wait for its batch in nanoseconds. `timer` may be null.
  absl::StatusOr<int64_t> RunStep(StepTimer* timer);
  void DescribeTraining();

  const WorkerPlan plan_;
  const WorkloadDeps deps_;
  const int traced_steps_;
  const int untraced_steps_;
  MeasuredRun run_;
  data::Dataset dataset_;
  std::unique_ptr<TrainPipeline> pipeline_;
  std::unique_ptr<data::DataLoader> loader_;
  int64_t non_finite_losses_ = 0;
};

void TrainWorkload::DescribePlan() {
  job::Measurement& result = run_.result();
  result.workers = plan_.workers;
  result.amp_requested = plan_.amp;
  result.amp = plan_.amp && !run_.device().is_cpu();
  if (plan_.amp && !result.amp) {
    run_.AddFinding(Finding::Severity::kInfo, "AMP_NOT_IN_FORCE",
                    "--amp acts on a GPU only: this training ran in float32");
  }
}

absl::Status TrainWorkload::ReadDataset() {
  deps_.observer.OnStage(WorkerStage::kStarting, "reading the dataset");
  std::string yaml_path;
  if (plan_.source_paths.empty()) {
    LY_ASSIGN_OR_RETURN(yaml_path, data::EnsureSampleDataset(plan_.cache_dir, [this](int done) {
                          deps_.observer.OnProgress("sample dataset", done,
                                                    data::kSampleDatasetCount);
                        }));
  } else {
    yaml_path = plan_.source_paths[0];
  }
  LY_ASSIGN_OR_RETURN(
      const data::DatasetConfig config,
      data::ReadDatasetYaml(
          yaml_path, plan_.datasets_dir,
          plan_.source_paths.empty() ? data::Fence() : data::Fence(plan_.data_roots)));
  const int side = run_.result().imgsz;
  data::DatasetOptions options;
  options.input_width = options.input_height = side;
  if (!config.class_count.has_value()) {
    // Nobody says how many classes there are, so the model's own count stands.
    LY_ASSIGN_OR_RETURN(pipeline_, TrainPipeline::Make(PipelineOptions(1), run_.device()));
    options.default_class_count = pipeline_->model().class_count;
    pipeline_.reset();
  }
  LY_ASSIGN_OR_RETURN(dataset_, data::LoadTrainSplit(config, options));
  DescribeDataset();
  return absl::OkStatus();
}

void TrainWorkload::DescribeDataset() {
  const data::DatasetProblems& problems = dataset_.problems;
  run_.result().source_count = static_cast<int>(dataset_.items.size());
  const auto add = [&](int count, const char* code, absl::string_view what) {
    if (count == 0) return;
    std::string text = absl::StrCat(what, " left out: ", count);
    if (!problems.examples.empty()) {
      absl::StrAppend(&text, ", such as: ", absl::StrJoin(problems.examples, "; "));
    }
    run_.AddFinding(Finding::Severity::kInfo, code, std::move(text));
  };
  add(problems.unreadable_image_count, "IMAGES_SKIPPED", "unreadable pictures");
  add(problems.unsupported_image_count, "IMAGES_UNSUPPORTED",
      "pictures of unsupported kinds (GIF, TIFF, PFM)");
  add(problems.skipped_label_count, "LABELS_SKIPPED", "wrong label rows");
}

TrainWindow TrainWorkload::Window() const {
  return {plan_.warmup, plan_.runs, static_cast<int64_t>(dataset_.items.size())};
}

TrainPipeline::Options TrainWorkload::PipelineOptions(int batch) const {
  TrainPipeline::Options options;
  options.weights_path = plan_.weights_path;
  options.size = plan_.size;
  options.class_count = dataset_.class_count;
  options.imgsz = RoundUpToStride(plan_.imgsz);
  options.amp = plan_.amp && !run_.device().is_cpu();
  options.steps_per_epoch =
      std::max<int64_t>(1, static_cast<int64_t>(dataset_.items.size()) / batch);
  options.epochs = int64_t{plan_.warmup} + plan_.runs + kExtraEpochs;
  return options;
}

data::LoaderOptions TrainWorkload::LoaderOptions(int batch, int workers) const {
  data::LoaderOptions options;
  options.batch_size = batch;
  options.worker_count = workers;
  options.allocate = BatchAllocator(run_.device());
  return options;
}

// A whole step on real pictures, with a model of its own: nothing that it learns stays.
absl::StatusOr<int64_t> TrainWorkload::PeakMemoryOfStep(int batch) {
  LY_RETURN_IF_ERROR(run_.CheckCancelled());
  deps_.observer.OnStage(WorkerStage::kStarting, absl::StrCat("trying a batch of ", batch));
  LY_ASSIGN_OR_RETURN(const auto pipeline,
                      TrainPipeline::Make(PipelineOptions(batch), run_.device()));
  data::DataLoader loader(dataset_, LoaderOptions(batch, /*workers=*/0));
  const StepMemory memory(run_.device(), deps_.host);
  LY_RETURN_IF_ERROR(memory.Reset());
  // Twice: the optimizer's momenta and the moving averages are there from the second step on.
  for (int step = 0; step < 2; ++step) {
    LY_ASSIGN_OR_RETURN(data::Batch images, loader.Next());
    LY_RETURN_IF_ERROR(pipeline->ToDevice(std::move(images)));
    LY_RETURN_IF_ERROR(pipeline->Forward());
    LY_RETURN_IF_ERROR(pipeline->ZeroGrad());
    LY_RETURN_IF_ERROR(pipeline->Backward());
    LY_RETURN_IF_ERROR(pipeline->Optimize());
    LY_RETURN_IF_ERROR(pipeline->Finish().status());
  }
  return memory.PeakBytes();
}

absl::Status TrainWorkload::PickBatch() {
  job::Measurement& result = run_.result();
  if (plan_.batch > 0) return CheckWindow(Window(), plan_.batch);
  LY_RETURN_IF_ERROR(CheckWindow(Window(), 1));
  const int64_t largest = LargestBatch(Window());
  LY_ASSIGN_OR_RETURN(const int64_t memory_bytes,
                      StepMemory(run_.device(), deps_.host).TotalBytes());
  BatchProbeOptions options;
  options.budget_bytes =
      static_cast<int64_t>(kBatchMemoryShare * static_cast<double>(memory_bytes));
  options.max_batch = static_cast<int>(std::min<int64_t>(largest, options.max_batch));
  LY_ASSIGN_OR_RETURN(const BatchChoice choice,
                      ChooseBatch(options, [this](int batch) { return PeakMemoryOfStep(batch); }));
  result.batch = choice.batch;
  constexpr double kGiB = 1 << 30;
  std::string text = absl::StrFormat(
      "batch %d was picked: steps were tried against %.0f %% of %.2f GiB of %s (", choice.batch,
      100 * kBatchMemoryShare, static_cast<double>(memory_bytes) / kGiB,
      run_.device().is_cpu() ? "available memory" : "GPU memory");
  absl::StrAppend(&text,
                  absl::StrJoin(choice.tries, ", ",
                                [](std::string* out, const auto& item) {
                                  absl::StrAppendFormat(out, "%d: %.2f GiB", item.first,
                                                        static_cast<double>(item.second) / kGiB);
                                }),
                  ")");
  if (choice.is_bounded_by_maximum && largest <= options.max_batch) {
    absl::StrAppend(&text, "; the dataset's ", dataset_.items.size(), " images allow no more");
  }
  run_.AddFinding(Finding::Severity::kInfo, "BATCH_PICKED", std::move(text));
  return absl::OkStatus();
}

absl::Status TrainWorkload::Prepare() {
  // The cheap checks first: a small dataset should not wait for a model.
  LY_RETURN_IF_ERROR(run_.OpenDevice());
  DescribePlan();
  LY_RETURN_IF_ERROR(ReadDataset());
  LY_RETURN_IF_ERROR(PickBatch());
  LY_RETURN_IF_ERROR(run_.CheckCancelled());
  deps_.observer.OnStage(WorkerStage::kStarting, "loading weights");
  const int batch = run_.result().batch;
  LY_ASSIGN_OR_RETURN(pipeline_, TrainPipeline::Make(PipelineOptions(batch), run_.device()));
  run_.DescribeModel(pipeline_->model());
  loader_ = std::make_unique<data::DataLoader>(dataset_, LoaderOptions(batch, plan_.workers));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TrainWorkload::RunStep(StepTimer* timer) {
  PhaseScope dataload(timer, kDataload);
  const int64_t begin_ns = MonotonicNs();
  LY_ASSIGN_OR_RETURN(data::Batch batch, loader_->Next());
  const int64_t wait_ns = MonotonicNs() - begin_ns;
  // Host time: what the device still does is no wait for data.
  if (timer != nullptr) timer->EndPhase(kDataload);

  PhaseScope to_device(timer, kToDevice);
  LY_RETURN_IF_ERROR(pipeline_->ToDevice(std::move(batch)));
  LY_RETURN_IF_ERROR(to_device.End(run_));

  PhaseScope forward(timer, kForward);
  LY_RETURN_IF_ERROR(pipeline_->Forward());
  LY_RETURN_IF_ERROR(forward.End(run_));

  LY_RETURN_IF_ERROR(pipeline_->ZeroGrad());
  PhaseScope backward(timer, kBackward);
  LY_RETURN_IF_ERROR(pipeline_->Backward());
  LY_RETURN_IF_ERROR(backward.End(run_));

  PhaseScope optimizer(timer, kOptimizer);
  LY_RETURN_IF_ERROR(pipeline_->Optimize());
  LY_RETURN_IF_ERROR(optimizer.End(run_));

  LY_ASSIGN_OR_RETURN(const TrainLosses losses, pipeline_->Finish());
  if (!std::isfinite(losses.total)) ++non_finite_losses_;
  return wait_ns;
}

absl::Status TrainWorkload::WarmUp() {
  deps_.observer.OnStage(WorkerStage::kWarmingUp, "");
  for (int i = 0; i < plan_.warmup; ++i) {
    LY_RETURN_IF_ERROR(run_.CheckCancelled());
    LY_RETURN_IF_ERROR(RunStep(nullptr).status());
    deps_.observer.OnProgress("warm-up", i + 1, plan_.warmup);
  }
  return absl::OkStatus();
}

absl::Status TrainWorkload::MeasureUntraced() {
  deps_.observer.OnStage(WorkerStage::kMeasuring, "step times, without a tracer");
  job::Measurement& result = run_.result();
  result.latencies_ns.reserve(static_cast<size_t>(untraced_steps_));
  result.dataload_ns.reserve(static_cast<size_t>(untraced_steps_));
  LY_RETURN_IF_ERROR(run_.BeginUntraced());
  const int64_t window_begin_ns = MonotonicNs();
  int64_t window_end_ns = window_begin_ns;
  for (int i = 0; i < untraced_steps_; ++i) {
    LY_RETURN_IF_ERROR(run_.CheckCancelled());
    const int64_t begin_ns = MonotonicNs();
    LY_ASSIGN_OR_RETURN(const int64_t wait_ns, RunStep(nullptr));
    window_end_ns = MonotonicNs();
    result.latencies_ns.push_back(window_end_ns - begin_ns);
    result.dataload_ns.push_back(wait_ns);
    deps_.observer.OnProgress("measure", i + 1, untraced_steps_);
  }
  result.untraced_wall_ns = window_end_ns - window_begin_ns;
  result.images_processed = int64_t{untraced_steps_} * result.batch;
  return run_.EndUntraced();
}

absl::Status TrainWorkload::RunTimedSteps(StepTimer& timer) {
  for (int i = 0; i < traced_steps_; ++i) {
    LY_RETURN_IF_ERROR(run_.CheckCancelled());
    timer.BeginStep();
    LY_RETURN_IF_ERROR(RunStep(&timer).status());
    timer.EndStep();
    deps_.observer.OnProgress("trace", i + 1, traced_steps_);
  }
  return absl::OkStatus();
}

absl::Status TrainWorkload::MeasurePhases(CaptureSession* capture) {
  deps_.observer.OnStage(WorkerStage::kMeasuring, "phases, with a trace");
  StepTimer timer(deps_.clock, PhaseNames(), traced_steps_);
  if (capture != nullptr) {
    LY_RETURN_IF_ERROR(capture->Start());
    timer.TellPhasesTo(*capture);
    // A tracer's first step on a GPU pays for its set-up: it stays outside of the marks.
    if (!run_.device().is_cpu()) LY_RETURN_IF_ERROR(RunStep(nullptr).status());
  }
  const ClockPair begin = ReadClockPair(deps_.clock);
  LY_RETURN_IF_ERROR(RunTimedSteps(timer));
  const ClockLine line(deps_.clock, begin, ReadClockPair(deps_.clock));
  job::Measurement& result = run_.result();
  if (capture != nullptr) {
    LY_ASSIGN_OR_RETURN(const CaptureCounts counts, capture->Stop());
    run_.DescribeCapture(counts);
    timer.AddMarks(plan_.warmup + untraced_steps_, *capture);
  }
  result.traced_steps = timer.Steps(line);
  return absl::OkStatus();
}

void TrainWorkload::DescribeTraining() {
  const data::BrokenImages& broken = loader_->broken_images();
  if (broken.count() > 0) {
    run_.AddFinding(
        Finding::Severity::kInfo, "IMAGES_BROKEN",
        absl::StrCat(broken.count(), " pictures could not be decoded; others took their place: ",
                     absl::StrJoin(broken.examples(), "; ")));
  }
  if (non_finite_losses_ > 0) {
    run_.AddFinding(Finding::Severity::kSuspect, "LOSS_NOT_FINITE",
                    absl::StrCat("the loss was infinite or no number in ", non_finite_losses_,
                                 " steps: check the weights and the labels"));
  }
  if (pipeline_->skipped_step_count() > 0) {
    run_.AddFinding(Finding::Severity::kInfo, "AMP_STEPS_SKIPPED",
                    absl::StrCat("the gradient scaler left out ", pipeline_->skipped_step_count(),
                                 " optimizer steps while it looked for its scale"));
  }
}

absl::StatusOr<job::Measurement> TrainWorkload::Run() {
  absl::Status measured = Measure();
  if (measured.ok()) return std::move(run_.result());
  loader_.reset();
  pipeline_.reset();
  return run_.NameFittingBatch(measured, run_.result().batch,
                               [this](int batch) { return PeakMemoryOfStep(batch); });
}

absl::Status TrainWorkload::Measure() {
  LY_RETURN_IF_ERROR(Prepare());
  LY_RETURN_IF_ERROR(WarmUp());
  LY_RETURN_IF_ERROR(MeasureUntraced());
  std::optional<CaptureSession> capture;
  if (plan_.trace) {
    const int64_t expected = kOpsPerStep * traced_steps_;
    capture.emplace(
        CaptureSession::Options{.clock = deps_.clock,
                                .max_op_records = kMaxTracedOps,
                                .expected_op_records = std::min(expected, kMaxTracedOps),
                                .expected_marks = int64_t{traced_steps_} * 6,
                                .expects_kernels = !run_.device().is_cpu()},
        deps_.activities);
  }
  LY_RETURN_IF_ERROR(MeasurePhases(capture ? &*capture : nullptr));
  DescribeTraining();
  loader_.reset();
  LY_RETURN_IF_ERROR(run_.Conclude(traced_steps_));
  return capture ? run_.WriteTrace(*capture) : absl::OkStatus();
}

}  // namespace

std::unique_ptr<Workload> MakeTrainWorkload(const WorkerPlan& plan, const WorkloadDeps& deps) {
  return std::make_unique<TrainWorkload>(plan, deps);
}

}  // namespace libreyolo::worker
