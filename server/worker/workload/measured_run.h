// What both workloads do around their iterations: open the device, describe what is in force, watch
// the host while the untraced window runs, write the trace, conclude. Owns the measurement that is
// being filled in. For the workload's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/measurement.h"
#include "server/worker/capture/capture_session.h"
#include "server/worker/workload/compute_device.h"
#include "server/worker/workload/workload.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::yolo9 {
struct LoadedModel;
}

namespace libreyolo::worker {

class MeasuredRun {
 public:
  // `plan` and what `deps` refers to outlive this object.
  MeasuredRun(const worker_link::WorkerPlan& plan, const WorkloadDeps& deps);

  // Opens the plan's device, after what the plan wants of other users of the GPU, and sets the
  // number of compute threads. Errors of ComputeDevice::Open, and
  //   GPU_CONTENDED  another process uses the GPU, and the plan says that the job then fails
  absl::Status OpenDevice();
  // What was loaded, and what was odd about it.
  void DescribeModel(const yolo9::LoadedModel& model);
  const ComputeDevice& device() const { return *device_; }
  // The measurement: the plan's values are in it from the start.
  job::Measurement& result() { return result_; }

  // `failure` of work at `batch`; out of memory on an open device also names the batch that fits
  // (WithBatchThatFits), which is tried with `peak_of`. What the failed work held is given back.
  absl::Status NameFittingBatch(const absl::Status& failure, int batch,
                                absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of) const;

  // CANCELLED once the observer says so.
  absl::Status CheckCancelled() const;
  // Waits for the device; nothing to do on the CPU.
  absl::Status Synchronize() const;

  // Around the untraced window, before whose end images_processed is known. Between the two the
  // GPU, the host's load and the peaks of memory are watched. GPU_CONTENDED as above.
  absl::Status BeginUntraced();
  absl::Status EndUntraced();

  // The machine afterwards, the weights' digest, and the findings. `traced_steps_wanted` of the
  // second window.
  absl::Status Conclude(int traced_steps_wanted);
  // After Conclude(). STORE_FAILED.
  absl::Status WriteTrace(const CaptureSession& capture);

  // What a capture got, and what it could not get.
  void DescribeCapture(const CaptureCounts& counts);
  void AddFinding(job::Finding::Severity severity, const char* code, std::string text);

 private:
  absl::Status MeetOtherUsers();
  void DescribeDeviceMemory();
  JsonValue::Array DeviceProperties() const;
  absl::Status Contended(const std::string& users, const char* when) const;

  const worker_link::WorkerPlan& plan_;
  const WorkloadDeps& deps_;
  std::optional<ComputeDevice> device_;
  CpuSample cpu_before_;
  ComputeDevice::AllocatorCounts allocations_before_;
  CpuUsage cpu_usage_;
  job::Measurement result_;
};

// `imgsz` rounded up to what the network's strides allow.
int RoundUpToStride(int imgsz);

}  // namespace libreyolo::worker
