#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "server/daemon/device/device_inventory.h"
#include "server/gpu/call_with_deadline.h"
#include "server/gpu/nvml.h"

namespace libreyolo::daemon {
namespace {

// CUDA sees the instances and not the whole GPU.
constexpr char kMigIsOn[] = "MIG is on: name one of its instances";

// What a call needs, kept alive by a call that does not come back.
struct Library {
  std::string path;
  std::mutex mu;  // loading happens once
  bool tried = false;
  absl::Status status;
  std::unique_ptr<gpu::Nvml> nvml;

  // A failure is final for this process, as it is for CUDA itself.
  absl::Status Load() {
    const std::lock_guard<std::mutex> lock(mu);
    if (tried) return status;
    tried = true;
    absl::StatusOr<std::unique_ptr<gpu::Nvml>> opened = gpu::Nvml::Open(path);
    if (opened.ok()) {
      nvml = *std::move(opened);
    } else {
      status = opened.status();
    }
    return status;
  }
};

void AddProcesses(const gpu::GpuDescription& gpu, DeviceInfo& info) {
  for (const gpu::GpuProcess& raw : gpu.now.processes.value_or(std::vector<gpu::GpuProcess>())) {
    DeviceInfo::Process process;
    process.pid = raw.pid;
    // "name\n"; empty for a process of another container.
    process.name = ReadFile(absl::StrCat("/proc/", raw.pid, "/comm"), 64).value_or("");
    process.name.resize(std::min(process.name.size(), process.name.find('\n')));
    process.memory_bytes = raw.memory_bytes;
    process.gpu_instance = raw.gpu_instance;
    info.processes.push_back(std::move(process));
  }
}

DeviceInfo FromGpu(const gpu::GpuDescription& gpu) {
  DeviceInfo info;
  info.id = absl::StrCat("cuda:", gpu.index);
  info.description = gpu.name;
  info.uuid = gpu.uuid;
  info.unusable = gpu.unusable;
  if (gpu.mig_enabled) info.unusable = kMigIsOn;
  if (gpu.compute_mode == "prohibited") info.unusable = "its compute mode prohibits CUDA";
  info.memory_total_bytes = gpu.memory_total_bytes;
  info.memory_used_bytes = gpu.memory_used_bytes;
  AddProcesses(gpu, info);
  info.details = gpu;
  return info;
}

DeviceInfo FromInstance(const gpu::GpuDescription& gpu, const gpu::MigInstance& instance) {
  DeviceInfo info;
  info.id = info.uuid = instance.uuid;
  info.parent = absl::StrCat("cuda:", gpu.index);
  info.description = instance.name;
  info.memory_total_bytes = instance.memory_total_bytes;
  info.memory_used_bytes = instance.memory_used_bytes;
  AddProcesses(gpu, info);
  std::erase_if(info.processes, [&](const DeviceInfo::Process& process) {
    return process.gpu_instance != instance.gpu_instance;
  });
  // Clocks, power and temperature are the whole GPU's; so is what lowers them.
  info.details = gpu;
  return info;
}

absl::StatusOr<std::vector<DeviceInfo>> List(Library& library) {
  LY_RETURN_IF_ERROR(library.Load());
  LY_ASSIGN_OR_RETURN(const std::vector<gpu::GpuDescription> gpus, library.nvml->List());
  std::vector<DeviceInfo> devices;
  for (const gpu::GpuDescription& gpu : gpus) {
    devices.push_back(FromGpu(gpu));
    for (const gpu::MigInstance& instance : gpu.instances) {
      devices.push_back(FromInstance(gpu, instance));
    }
  }
  return devices;
}

class NvmlInventory : public GpuInventory {
 public:
  NvmlInventory(std::string library, absl::Duration deadline) : deadline_(deadline) {
    library_->path = std::move(library);
  }

  absl::StatusOr<std::vector<DeviceInfo>> ListGpus() override {
    absl::StatusOr<std::vector<DeviceInfo>> listed =
        calls_.Run([library = library_] { return List(*library); }, deadline_);
    if (!absl::IsDeadlineExceeded(listed.status())) return listed;
    return absl::FailedPreconditionError(absl::StrCat(
        "the NVIDIA driver does not answer (NVML hung for ", absl::FormatDuration(deadline_),
        "): see the kernel's log, and restart the machine if it stays so"));
  }

 private:
  const absl::Duration deadline_;
  // Shared with a call that may outlive the inventory.
  const std::shared_ptr<Library> library_ = std::make_shared<Library>();
  gpu::CallWithDeadline<std::vector<DeviceInfo>> calls_;
};

}  // namespace

std::unique_ptr<GpuInventory> MakeNvmlInventory(const std::string& library,
                                                absl::Duration deadline) {
  return std::make_unique<NvmlInventory>(library, deadline);
}

}  // namespace libreyolo::daemon
