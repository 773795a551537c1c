#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "server/daemon/device/device_inventory.h"

namespace libreyolo::daemon {
namespace {

// The few declarations of nvml.h that are used, as its ABI gives them (NVML API reference); the
// header itself comes with the CUDA toolkit, which a build machine need not have.
using NvmlReturn = int;
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct NvmlProcess {
  unsigned int pid;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr unsigned long long kMemoryUnknown = ~0ull;
constexpr unsigned int kTextBytes = 96;
constexpr unsigned int kMaxProcesses = 256;

struct NvmlTable {
  NvmlReturn (*init)() = nullptr;
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*device_count)(unsigned int*) = nullptr;
  NvmlReturn (*device_by_index)(unsigned int, NvmlDevice*) = nullptr;
  NvmlReturn (*device_name)(NvmlDevice, char*, unsigned int) = nullptr;
  NvmlReturn (*device_uuid)(NvmlDevice, char*, unsigned int) = nullptr;
  NvmlReturn (*device_memory)(NvmlDevice, NvmlMemory*) = nullptr;
  NvmlReturn (*device_processes)(NvmlDevice, unsigned int*, NvmlProcess*) = nullptr;
};

class NvmlInventory : public GpuInventory {
 public:
  explicit NvmlInventory(std::string library) : library_(std::move(library)) {}

  absl::StatusOr<std::vector<DeviceInfo>> ListGpus() override {
    const std::lock_guard<std::mutex> lock(mu_);
    const absl::Status ready = Load();
    if (!ready.ok()) return ready;
    unsigned int count = 0;
    const NvmlReturn result = nvml_.device_count(&count);
    if (result != kNvmlSuccess) return Failure("count devices", result);
    std::vector<DeviceInfo> gpus;
    for (unsigned int i = 0; i < count; ++i) {
      NvmlDevice device = nullptr;
      // A device that fell off the bus is left out; the others stay usable.
      if (nvml_.device_by_index(i, &device) != kNvmlSuccess) continue;
      gpus.push_back(Describe(i, device));
    }
    return gpus;
  }

 private:
  absl::Status Failure(const char* what, NvmlReturn result) const {
    return absl::FailedPreconditionError(
        absl::StrCat("NVML cannot ", what, ": ", nvml_.error_string(result)));
  }

  // Once; a failure is final for this process, as it is for CUDA itself.
  absl::Status Load() {
    if (tried_) return status_;
    tried_ = true;
    void* handle = dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return status_ = absl::FailedPreconditionError(
                 absl::StrCat("no NVIDIA driver is installed (", library_, " was not found)"));
    }
    const auto symbol = [&](const char* name, auto& slot) {
      slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(handle, name));
      if (slot == nullptr && status_.ok()) {
        status_ = absl::FailedPreconditionError(absl::StrCat(library_, " lacks ", name));
      }
    };
    symbol("nvmlInit_v2", nvml_.init);
    symbol("nvmlErrorString", nvml_.error_string);
    symbol("nvmlDeviceGetCount_v2", nvml_.device_count);
    symbol("nvmlDeviceGetHandleByIndex_v2", nvml_.device_by_index);
    symbol("nvmlDeviceGetName", nvml_.device_name);
    symbol("nvmlDeviceGetUUID", nvml_.device_uuid);
    symbol("nvmlDeviceGetMemoryInfo", nvml_.device_memory);
    symbol("nvmlDeviceGetComputeRunningProcesses_v3", nvml_.device_processes);
    if (!status_.ok()) return status_;
    const NvmlReturn result = nvml_.init();
    if (result != kNvmlSuccess) status_ = Failure("start", result);
    return status_;
  }

  DeviceInfo Describe(unsigned int index, NvmlDevice device) const {
    DeviceInfo gpu;
    gpu.id = absl::StrCat("cuda:", index);
    char text[kTextBytes];
    if (nvml_.device_name(device, text, sizeof text) == kNvmlSuccess) gpu.description = text;
    if (nvml_.device_uuid(device, text, sizeof text) == kNvmlSuccess) gpu.uuid = text;
    NvmlMemory memory;
    if (nvml_.device_memory(device, &memory) == kNvmlSuccess) {
      gpu.memory_total_bytes = static_cast<int64_t>(memory.total);
      gpu.memory_used_bytes = static_cast<int64_t>(memory.used);
    }
    std::vector<NvmlProcess> processes(kMaxProcesses);
    unsigned int count = kMaxProcesses;
    if (nvml_.device_processes(device, &count, processes.data()) == kNvmlSuccess) {
      for (unsigned int i = 0; i < count && i < kMaxProcesses; ++i) {
        DeviceInfo::Process process;
        process.pid = processes[i].pid;
        process.name = TailOfFile(absl::StrCat("/proc/", process.pid, "/comm"), 64);
        if (processes[i].used_gpu_memory != kMemoryUnknown) {
          process.memory_bytes = static_cast<int64_t>(processes[i].used_gpu_memory);
        }
        gpu.processes.push_back(std::move(process));
      }
    }
    return gpu;
  }

  const std::string library_;
  std::mutex mu_;  // NVML is thread-safe, loading it is not
  bool tried_ = false;
  absl::Status status_;
  NvmlTable nvml_;
};

}  // namespace

std::unique_ptr<GpuInventory> MakeNvmlInventory(const std::string& library) {
  return std::make_unique<NvmlInventory>(library);
}

}  // namespace libreyolo::daemon
