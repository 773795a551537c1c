// How much memory a training step takes, and how much there is: VRAM on a GPU, resident memory of
// the process on the CPU. For one thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/worker/workload/compute_device.h"
#include "server/worker/workload/environment.h"

namespace libreyolo::worker {

class StepMemory {
 public:
  // Both outlive this object.
  StepMemory(const ComputeDevice& device, const HostProbe& host) : device_(device), host_(host) {}

  // All of a GPU's memory; on the CPU what this process holds and could still get.
  absl::StatusOr<int64_t> TotalBytes() const;
  // Gives cached memory back and forgets earlier peaks.
  absl::Status Reset() const;
  // The most since Reset().
  absl::StatusOr<int64_t> PeakBytes() const;

 private:
  const ComputeDevice& device_;
  const HostProbe& host_;
};

}  // namespace libreyolo::worker
