// The device that a job computes on, through LibTorch's generic accelerator API: one worker binary
// serves CPU and CUDA, and LibTorch's CUDA libraries are loaded only by a job that wants them.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace libreyolo::worker {

// Loads what LibTorch needs for `device` ("cpu", "cuda:0"). Must come before the process's first
// use of LibTorch: it looks for CUDA once and remembers the answer. DEVICE_UNUSABLE says what is
// missing.
absl::Status LoadDeviceLibraries(const std::string& device);

class ComputeDevice {
 public:
  // After LoadDeviceLibraries.
  //   ARGUMENT_INVALID  neither "cpu" nor "cuda:N"
  //   DEVICE_UNUSABLE   no driver, or LibTorch cannot use it
  //   DEVICE_NOT_FOUND  fewer devices than that
  static absl::StatusOr<ComputeDevice> Open(const std::string& device);

  bool is_cpu() const { return device_.is_cpu(); }
  const c10::Device& torch_device() const { return device_; }
  // "cpu", "cuda:0".
  std::string name() const { return device_.str(); }

  // The rest may throw c10::Error: callers go through CallTorch. On the CPU they do nothing.
  // Waits until the device has done all work.
  void Synchronize() const;
  void ResetPeakMemory() const;
  // Most memory that tensors took since ResetPeakMemory(); absent on the CPU.
  std::optional<int64_t> PeakMemoryBytes() const;

  // The rest is for GPUs only. What the caching allocator did since the process began:
  struct AllocatorCounts {
    int64_t allocations = 0;
    int64_t frees = 0;
    int64_t device_allocations = 0;
    int64_t device_frees = 0;
    int64_t retries = 0;
  };
  AllocatorCounts CountAllocations() const;
  // What the allocator took from the device since ResetPeakMemory(), with what it kept in its
  // cache.
  int64_t PeakReservedBytes() const;
  int64_t TotalMemoryBytes() const;
  void EmptyCache() const;

 private:
  explicit ComputeDevice(c10::Device device) : device_(device) {}

  c10::Device device_;
};

}  // namespace libreyolo::worker
