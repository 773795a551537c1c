// The devices of this host: the CPU, and the GPUs that NVML names. Reads only; nothing is created
// on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace libreyolo::daemon {

struct DeviceInfo {
  std::string id;           // "cpu", "cuda:0"
  std::string description;  // the CPU's or GPU's model
  std::string uuid;         // GPUs
  int64_t memory_total_bytes = 0;
  std::optional<int64_t> memory_used_bytes;
  int cpu_count = 0;  // for "cpu"
  struct Process {
    int64_t pid = 0;
    std::string name;
    std::optional<int64_t> memory_bytes;
  };
  std::vector<Process> processes;
};

// The GPUs of a host. Thread-safe. A seam: tests hand in a fake.
class GpuInventory {
 public:
  virtual ~GpuInventory() = default;
  // FailedPrecondition with the reason when CUDA is not usable here; the list is empty when there
  // is no GPU.
  virtual absl::StatusOr<std::vector<DeviceInfo>> ListGpus() = 0;
};

// NVML by dlopen. `library` is "libnvidia-ml.so.1" or, in tests, a path.
std::unique_ptr<GpuInventory> MakeNvmlInventory(const std::string& library);

// Thread-safe.
class DeviceInventory {
 public:
  // `root` is prefixed to /proc paths; empty for the real ones.
  DeviceInventory(std::unique_ptr<GpuInventory> gpus, std::string root)
      : gpus_(std::move(gpus)), root_(std::move(root)) {}

  // The CPU first, then the GPUs.
  std::vector<DeviceInfo> List() const;
  // Why there is no GPU to use; empty when there is one.
  std::string CudaUnusableReason() const;
  // "0", "cuda:0", a UUID or "cpu" -> the device's id.
  //   DEVICE_UNUSABLE  CUDA is not usable here, and why
  //   DEVICE_NOT_FOUND there is no such GPU; the message lists those there are
  absl::StatusOr<std::string> Resolve(const std::string& text) const;

 private:
  DeviceInfo Cpu() const;

  std::unique_ptr<GpuInventory> gpus_;
  std::string root_;
};

}  // namespace libreyolo::daemon
