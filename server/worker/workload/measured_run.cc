#include "server/worker/workload/measured_run.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/job/measurement_json.h"
#include "common/trace/trace_writer.h"
#include "server/worker/sampling/gpu_watch.h"
#include "server/worker/torch_call.h"
#include "server/worker/workload/batch_probe.h"
#include "server/worker/workload/findings.h"
#include "server/worker/workload/step_memory.h"
#include "server/worker/yolo9/model_loader.h"
#include "server/worker/yolo9/variants.h"

namespace libreyolo::worker {
namespace {

constexpr absl::Duration kContentionPoll = absl::Milliseconds(250);

}  // namespace

int RoundUpToStride(int imgsz) {
  return (imgsz + yolo9::kMaxStride - 1) / yolo9::kMaxStride * yolo9::kMaxStride;
}

MeasuredRun::MeasuredRun(const worker_link::WorkerPlan& plan, const WorkloadDeps& deps)
    : plan_(plan), deps_(deps) {
  result_.mode = plan_.mode;
  result_.batch = plan_.batch;
  result_.imgsz = RoundUpToStride(plan_.imgsz);
  result_.imgsz_requested = plan_.imgsz;
  result_.warmup = plan_.warmup;
  result_.runs = plan_.runs;
  result_.amp_dtype = plan_.amp_dtype;
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

absl::Status MeasuredRun::Contended(const std::string& users, const char* when) const {
  return MakeError(reason::kGpuContended,
                   absl::StrCat("another process uses the GPU ", when, ": ", users),
                   {"--on-contention wait starts when it has left",
                    "--on-contention warn measures all the same and says so in the profile"});
}

// Before this process is on the GPU itself.
absl::Status MeasuredRun::MeetOtherUsers() {
  if (deps_.gpu == nullptr || plan_.on_contention == job::OnContention::kWarn) {
    return absl::OkStatus();
  }
  std::string users = deps_.gpu->OtherUsers();
  if (plan_.on_contention == job::OnContention::kFail) {
    return users.empty() ? absl::OkStatus() : Contended(users, "already");
  }
  for (std::string told; !users.empty(); users = deps_.gpu->OtherUsers()) {
    LY_RETURN_IF_ERROR(CheckCancelled());
    if (users != told) {
      told = users;
      deps_.observer.OnStage(worker_link::WorkerStage::kStarting,
                             absl::StrCat("waiting for ", users, " to leave the GPU"));
    }
    // The job's time limit ends this, if nobody else does.
    deps_.observer.OnProgress("wait for the GPU", 0, 0);
    absl::SleepFor(kContentionPoll);
  }
  return absl::OkStatus();
}

absl::Status MeasuredRun::OpenDevice() {
  LY_RETURN_IF_ERROR(MeetOtherUsers());
  LY_ASSIGN_OR_RETURN(device_, ComputeDevice::Open(plan_.device));
  result_.device = device_->name();
  result_.device_name = device_->is_cpu() ? result_.environment.cpu_model : device_->name();
  const int threads = plan_.threads > 0 ? plan_.threads : deps_.host.DefaultThreads();
  LY_RETURN_IF_ERROR(CallTorch([threads] { at::set_num_threads(threads); }));
  result_.environment.threads = at::get_num_threads();
  return absl::OkStatus();
}

void MeasuredRun::DescribeModel(const yolo9::LoadedModel& model) {
  result_.model.size = model.size;
  result_.model.class_count = model.class_count;
  result_.model.parameter_count = model.parameter_count;
  result_.model.letterbox = model.letterbox == yolo9::LetterboxPad::kCenter ? "center" : "topleft";
  for (const std::string& text : model.findings) {
    AddFinding(job::Finding::Severity::kInfo, "WEIGHTS_UNUSUAL", text);
  }
}

absl::Status MeasuredRun::NameFittingBatch(
    const absl::Status& failure, int batch,
    absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of) const {
  // A GPU that is full may fail before it is open.
  if (!device_.has_value() || !HasReason(failure, reason::kOutOfMemory)) return failure;
  const absl::StatusOr<int64_t> memory_bytes = StepMemory(*device_, deps_.host).TotalBytes();
  if (!memory_bytes.ok()) return failure;
  return WithBatchThatFits(failure, batch, *memory_bytes, peak_of);
}

absl::Status MeasuredRun::CheckCancelled() const {
  if (!deps_.observer.IsCancelled()) return absl::OkStatus();
  return MakeError(reason::kCancelled, "the job was cancelled");
}

absl::Status MeasuredRun::Synchronize() const {
  if (device_->is_cpu()) return absl::OkStatus();
  return CallTorch([this] { device_->Synchronize(); });
}

absl::Status MeasuredRun::BeginUntraced() {
  LY_RETURN_IF_ERROR(CallTorch([this] {
    device_->ResetPeakMemory();
    if (!device_->is_cpu()) allocations_before_ = device_->CountAllocations();
  }));
  cpu_before_ = deps_.host.SampleCpu();
  if (deps_.gpu != nullptr) deps_.gpu->BeginWindow();
  return absl::OkStatus();
}

absl::Status MeasuredRun::EndUntraced() {
  if (deps_.gpu != nullptr) {
    result_.gpu_watch = deps_.gpu->EndWindow(result_.images_processed);
    if (!result_.gpu_watch->name.empty()) result_.device_name = result_.gpu_watch->name;
    const std::string users = ForeignUsers(result_.gpu_watch->foreign);
    if (plan_.on_contention == job::OnContention::kFail && !users.empty()) {
      return Contended(users, "while latencies were taken");
    }
  }
  cpu_usage_ = CompareCpu(cpu_before_, deps_.host.SampleCpu());
  // Read here: the records of a capture are not part of what the model needs.
  result_.peak_rss_bytes = PeakResidentBytes();
  return CallTorch([this] { DescribeDeviceMemory(); });
}

void MeasuredRun::DescribeDeviceMemory() {
  result_.peak_vram_bytes = device_->PeakMemoryBytes();
  if (device_->is_cpu()) return;
  const ComputeDevice::AllocatorCounts before = allocations_before_;
  const ComputeDevice::AllocatorCounts after = device_->CountAllocations();
  result_.device_memory =
      job::DeviceMemory{.steps = static_cast<int64_t>(result_.latencies_ns.size()),
                        .peak_reserved_bytes = device_->PeakReservedBytes(),
                        .allocations = after.allocations - before.allocations,
                        .frees = after.frees - before.frees,
                        .device_allocations = after.device_allocations - before.device_allocations,
                        .device_frees = after.device_frees - before.device_frees,
                        .retries = after.retries - before.retries};
}

absl::Status MeasuredRun::Conclude(int traced_steps_wanted) {
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
      FindInMeasurement(result_, cpu_usage_.is_meaningful, traced_steps_wanted);
  std::move(findings.begin(), findings.end(), std::back_inserter(result_.findings));
  if (result_.gpu_watch.has_value()) {
    findings = FindInGpuWatch(*result_.gpu_watch);
    std::move(findings.begin(), findings.end(), std::back_inserter(result_.findings));
  }
  return absl::OkStatus();
}

// With the names that LibTorch's profiler gives them.
JsonValue::Array MeasuredRun::DeviceProperties() const {
  if (device_->is_cpu()) return {};
  JsonValue device{JsonValue::Object{}};
  device.Set("id", static_cast<int64_t>(device_->torch_device().index()));
  device.Set("name", result_.device_name);
  if (result_.gpu_watch.has_value() && result_.gpu_watch->memory_total_bytes > 0) {
    device.Set("totalGlobalMem", result_.gpu_watch->memory_total_bytes);
  }
  return {std::move(device)};
}

absl::Status MeasuredRun::WriteTrace(const CaptureSession& capture) {
  JsonValue metadata;
  metadata.Set("schema", trace::kTraceSchema);
  metadata.Set("measurement", job::MeasurementToJson(result_));
  const TraceNames names{.trace = kTraceFileName,
                         .process = "libreyolo-worker",
                         .labels = device_->is_cpu() ? "CPU" : "CPU, GPU",
                         .device_properties = DeviceProperties()};
  const std::string path = absl::StrCat(plan_.staging_dir, "/", kTraceFileName);
  const absl::Status written = capture.WriteTrace(path, names, metadata);
  if (written.ok()) return written;
  return MakeError(reason::kStoreFailed,
                   absl::StrCat("the trace is not stored: ", written.message()),
                   {"free space in the store, or measure with --no-trace"});
}

void MeasuredRun::DescribeCapture(const CaptureCounts& counts) {
  result_.op_records = counts.op_count;
  result_.dropped_records = counts.dropped_count;
  if (counts.missing_kinds.empty()) return;
  AddFinding(job::Finding::Severity::kSuspect, "CAPTURE_INCOMPLETE",
             absl::StrCat("CUPTI does not record these here, and what depends on them is missing: ",
                          absl::StrJoin(counts.missing_kinds, ", ")));
}

void MeasuredRun::AddFinding(job::Finding::Severity severity, const char* code, std::string text) {
  result_.findings.push_back({severity, code, std::move(text)});
}

}  // namespace libreyolo::worker
