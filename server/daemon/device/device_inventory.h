// The devices of this host: the CPU, and the GPUs that NVML names. Reads only; nothing is created
// on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/gpu/nvml.h"

namespace libreyolo::daemon {

struct DeviceInfo {
  // "cpu"; "cuda:0", numbered in the order of the PCI bus; a MIG instance's UUID.
  std::string id;
  std::string description;  // the CPU's or GPU's model
  std::string uuid;         // GPUs and MIG instances
  std::string parent;       // MIG instances: the id of their GPU
  std::string unusable;     // why no job can run on it; empty when one can
  int64_t memory_total_bytes = 0;
  std::optional<int64_t> memory_used_bytes;
  int cpu_count = 0;  // for "cpu"
  struct Process {
    int64_t pid = 0;
    std::string name;
    std::optional<int64_t> memory_bytes;
    std::optional<int> gpu_instance;  // MIG
  };
  std::vector<Process> processes;
  std::optional<gpu::GpuDescription> details;  // all that NVML tells; of a MIG instance its GPU's
};

// The GPUs of a host. Thread-safe. A seam: tests hand in a fake.
class GpuInventory {
 public:
  virtual ~GpuInventory() = default;
  // FailedPrecondition with the reason when CUDA is not usable here; the list is empty when there
  // is no GPU.
  virtual absl::StatusOr<std::vector<DeviceInfo>> ListGpus() = 0;
};

// NVML by dlopen. `library` is gpu::NvmlPath() or, in tests, a path. A driver that does not answer
// within `deadline` is reported as such: nobody waits longer, and the daemon does not hang.
std::unique_ptr<GpuInventory> MakeNvmlInventory(const std::string& library,
                                                absl::Duration deadline = absl::Seconds(5));

// How a worker gets at a device.
struct WorkerDevice {
  std::string name;  // its --device: "cpu", "cuda:0"
  std::vector<std::pair<std::string, std::string>> environment;
};
// For a device's id. Pure.
WorkerDevice WorkerDeviceOf(const std::string& id);

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
  // "0", "cuda:0", a UUID or "cpu" -> the device's id. With `visible`, the job's
  // CUDA_VISIBLE_DEVICES, numbers count what that leaves, and nothing else can be had.
  //   DEVICE_UNUSABLE  CUDA is not usable here, or not on this GPU, and why
  //   DEVICE_NOT_FOUND there is no such GPU; the message lists those there are
  absl::StatusOr<std::string> Resolve(const std::string& text,
                                      const std::string& visible = "") const;
  // True while process `pid`, or one of its group, is on the GPU `id`. False, and a line in the
  // log, when the driver does not tell: a lease must not last for ever for that.
  bool HasProcessOf(const std::string& id, int64_t pid) const;

 private:
  DeviceInfo Cpu() const;

  std::unique_ptr<GpuInventory> gpus_;
  std::string root_;
};

}  // namespace libreyolo::daemon
