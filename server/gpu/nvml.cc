#include "server/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/gpu/nvml_api.h"

namespace libreyolo::gpu {
namespace {

constexpr unsigned int kTextBytes = 96;
constexpr unsigned int kMaxProcesses = 1024;

using ProcessList = NvmlReturn (*)(NvmlDevice, unsigned int*, NvmlProcess*);

// A figure through a function that may be missing and may refuse.
std::optional<unsigned int> Get(NvmlReturn (*function)(NvmlDevice, unsigned int*),
                                NvmlDevice device) {
  unsigned int value = 0;
  if (function == nullptr || function(device, &value) != kNvmlSuccess) return std::nullopt;
  return value;
}

std::optional<unsigned int> Get(NvmlReturn (*function)(NvmlDevice, unsigned int, unsigned int*),
                                NvmlDevice device, unsigned int which) {
  unsigned int value = 0;
  if (function == nullptr || function(device, which, &value) != kNvmlSuccess) return std::nullopt;
  return value;
}

std::optional<unsigned long long> GetLong(NvmlReturn (*function)(NvmlDevice, unsigned long long*),
                                          NvmlDevice device) {
  unsigned long long value = 0;
  if (function == nullptr || function(device, &value) != kNvmlSuccess) return std::nullopt;
  return value;
}

std::string GetText(NvmlReturn (*function)(NvmlDevice, char*, unsigned int), NvmlDevice device) {
  char text[kTextBytes] = "";
  return function(device, text, sizeof text) == kNvmlSuccess ? text : "";
}

std::optional<int> ToInt(std::optional<unsigned int> value) {
  return value.has_value() ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

// Milli-units to units.
template <typename T>
std::optional<double> FromMilli(std::optional<T> value) {
  return value.has_value() ? std::optional<double>(static_cast<double>(*value) / 1000)
                           : std::nullopt;
}

// Appends; false when the list could not be had.
bool AddProcesses(ProcessList list, NvmlDevice device, bool graphics,
                  std::vector<GpuProcess>& out) {
  if (list == nullptr) return false;
  std::vector<NvmlProcess> raw(kMaxProcesses);
  unsigned int count = kMaxProcesses;
  if (list(device, &count, raw.data()) != kNvmlSuccess) return false;
  for (unsigned int i = 0; i < std::min(count, kMaxProcesses); ++i) {
    GpuProcess process;
    process.pid = raw[i].pid;
    process.graphics = graphics;
    if (raw[i].used_gpu_memory != kNvmlMemoryUnknown) {
      process.memory_bytes = static_cast<int64_t>(raw[i].used_gpu_memory);
    }
    if (raw[i].gpu_instance_id != kNvmlNoInstance) {
      process.gpu_instance = static_cast<int>(raw[i].gpu_instance_id);
    }
    out.push_back(process);
  }
  return true;
}

const char* ComputeModeName(std::optional<unsigned int> mode) {
  if (!mode.has_value()) return "";
  switch (*mode) {
    case 0:
      return "default";
    case 2:
      return "prohibited";
    case 3:
      return "exclusive process";
    default:
      return "exclusive thread";
  }
}

}  // namespace

const std::vector<ClockLimit>& ClockLimits() {
  static const auto& limits = *new std::vector<ClockLimit>{
      {0x001, "idle", false},
      {0x002, "clocks set by a user", false},
      {0x004, "power cap", true},
      {0x008, "slowed by hardware", true},
      {0x010, "clocks shared with other GPUs", true},
      {0x020, "hot (driver)", true},
      {0x040, "hot (hardware)", true},
      {0x080, "power brake", true},
      {0x100, "clocks of a display", false},
  };
  return limits;
}

std::vector<std::string> ClockLimitNames(uint64_t bits) {
  std::vector<std::string> names;
  for (const ClockLimit& limit : ClockLimits()) {
    if ((bits & limit.bit) != 0) names.emplace_back(limit.name);
  }
  return names;
}

bool IsThrottled(uint64_t bits) {
  for (const ClockLimit& limit : ClockLimits()) {
    if (limit.throttles && (bits & limit.bit) != 0) return true;
  }
  return false;
}

std::string NvmlPath() {
  const char* const chosen = std::getenv("LIBREYOLO_NVML");
  return chosen == nullptr || *chosen == '\0' ? "libnvidia-ml.so.1" : chosen;
}

Nvml::Nvml() : nvml_(std::make_unique<NvmlTable>()) {}
Nvml::~Nvml() = default;

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& library) {
  std::unique_ptr<Nvml> nvml(new Nvml);
  LY_RETURN_IF_ERROR(nvml->Load(library));
  return nvml;
}

absl::Status Nvml::Failure(const char* what, int result) const {
  return absl::FailedPreconditionError(
      absl::StrCat("NVML cannot ", what, ": ", nvml_->error_string(result)));
}

absl::Status Nvml::Load(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("no NVIDIA driver is installed (", library, " was not found)"));
  }
#define LY_NVML_RESOLVE(member, symbol, signature) \
  nvml_->member = reinterpret_cast<std::add_pointer_t<signature>>(dlsym(handle, symbol));
  LY_NVML_NEEDED(LY_NVML_RESOLVE)
  LY_NVML_OPTIONAL(LY_NVML_RESOLVE)
#undef LY_NVML_RESOLVE
#define LY_NVML_CHECK(member, symbol, signature)                                   \
  if (nvml_->member == nullptr) {                                                  \
    return absl::FailedPreconditionError(absl::StrCat(library, " lacks " symbol)); \
  }
  LY_NVML_NEEDED(LY_NVML_CHECK)
#undef LY_NVML_CHECK
  const NvmlReturn result = nvml_->init();
  if (result == kNvmlVersionMismatch) {
    return absl::FailedPreconditionError(
        absl::StrCat("the NVIDIA driver that runs and the libraries that are installed do not fit "
                     "each other (",
                     nvml_->error_string(result), "): reload the driver or restart the machine"));
  }
  if (result != kNvmlSuccess) return Failure("start", result);
  char text[kTextBytes] = "";
  if (nvml_->driver_version != nullptr &&
      nvml_->driver_version(text, sizeof text) == kNvmlSuccess) {
    driver_version_ = text;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GpuDescription>> Nvml::List() {
  unsigned int count = 0;
  const NvmlReturn result = nvml_->device_count(&count);
  if (result != kNvmlSuccess) return Failure("count devices", result);
  std::vector<GpuDescription> gpus;
  for (unsigned int i = 0; i < count; ++i) gpus.push_back(Describe(i));
  return gpus;
}

GpuDescription Nvml::Describe(unsigned int index) {
  GpuDescription gpu;
  gpu.index = static_cast<int>(index);
  NvmlDevice device = nullptr;
  const NvmlReturn result = nvml_->device_by_index(index, &device);
  if (result != kNvmlSuccess) {
    // One that fell off the bus, or that this user may not open: the others stay usable.
    gpu.unusable = nvml_->error_string(result);
    return gpu;
  }
  gpu.name = GetText(nvml_->device_name, device);
  gpu.uuid = GetText(nvml_->device_uuid, device);
  NvmlPciInfo pci{};
  if (nvml_->pci_info != nullptr && nvml_->pci_info(device, &pci) == kNvmlSuccess) {
    gpu.pci_bus_id = pci.bus_id;
  }
  NvmlMemory memory{};
  if (nvml_->device_memory(device, &memory) == kNvmlSuccess) {
    gpu.memory_total_bytes = static_cast<int64_t>(memory.total);
    gpu.memory_used_bytes = static_cast<int64_t>(memory.used);
  }
  gpu.max_sm_clock_mhz = ToInt(Get(nvml_->max_clock, device, kNvmlClockSm));
  gpu.power_limit_w = FromMilli(Get(nvml_->power_limit, device));
  const auto persistence = Get(nvml_->persistence, device);
  if (persistence.has_value()) gpu.persistence = *persistence != 0;
  gpu.compute_mode = ComputeModeName(Get(nvml_->compute_mode, device));
  unsigned int mig = 0;
  unsigned int mig_pending = 0;
  gpu.mig_enabled = nvml_->mig_mode != nullptr &&
                    nvml_->mig_mode(device, &mig, &mig_pending) == kNvmlSuccess && mig != 0;
  if (gpu.mig_enabled) gpu.instances = Instances(device);
  gpu.now = Read({device, gpu.uuid, std::nullopt}, true);
  return gpu;
}

std::vector<MigInstance> Nvml::Instances(void* device) {
  std::vector<MigInstance> instances;
  const auto count = Get(nvml_->max_mig_count, device);
  if (!count.has_value() || nvml_->mig_by_index == nullptr) return instances;
  for (unsigned int i = 0; i < *count; ++i) {
    NvmlDevice handle = nullptr;
    // Places without an instance answer "not found".
    if (nvml_->mig_by_index(device, i, &handle) != kNvmlSuccess) continue;
    MigInstance instance;
    instance.uuid = GetText(nvml_->device_uuid, handle);
    instance.name = GetText(nvml_->device_name, handle);
    instance.gpu_instance = ToInt(Get(nvml_->gpu_instance, handle)).value_or(-1);
    instance.compute_instance = ToInt(Get(nvml_->compute_instance, handle)).value_or(-1);
    NvmlMemory memory{};
    if (nvml_->device_memory(handle, &memory) == kNvmlSuccess) {
      instance.memory_total_bytes = static_cast<int64_t>(memory.total);
      instance.memory_used_bytes = static_cast<int64_t>(memory.used);
    }
    instances.push_back(std::move(instance));
  }
  return instances;
}

std::optional<std::vector<GpuProcess>> Nvml::Processes(void* device) {
  std::vector<GpuProcess> out;
  // Older drivers know the older of two functions with the same records.
  const ProcessList compute = nvml_->compute_processes_v3 != nullptr ? nvml_->compute_processes_v3
                                                                     : nvml_->compute_processes_v2;
  const ProcessList graphics = nvml_->graphics_processes_v3 != nullptr
                                   ? nvml_->graphics_processes_v3
                                   : nvml_->graphics_processes_v2;
  if (!AddProcesses(compute, device, false, out)) return std::nullopt;
  AddProcesses(graphics, device, true, out);  // a headless device may not have the list
  return out;
}

absl::StatusOr<Nvml::Device> Nvml::Find(const std::string& index_or_uuid) {
  Device device;
  unsigned int index = 0;
  const NvmlReturn result = absl::SimpleAtoi(index_or_uuid, &index)
                                ? nvml_->device_by_index(index, &device.gpu)
                                : nvml_->device_by_uuid(index_or_uuid.c_str(), &device.gpu);
  if (result != kNvmlSuccess) {
    return absl::NotFoundError(
        absl::StrCat("NVML knows no device ", index_or_uuid, ": ", nvml_->error_string(result)));
  }
  device.uuid = GetText(nvml_->device_uuid, device.gpu);
  if (absl::StartsWith(device.uuid, "MIG-")) {
    device.gpu_instance = ToInt(Get(nvml_->gpu_instance, device.gpu));
    NvmlDevice whole = nullptr;
    if (nvml_->gpu_of_mig != nullptr && nvml_->gpu_of_mig(device.gpu, &whole) == kNvmlSuccess) {
      device.gpu = whole;
    }
  }
  return device;
}

GpuReading Nvml::Read(const Device& which, bool with_processes) {
  void* const device = which.gpu;
  GpuReading now;
  now.sm_clock_mhz = ToInt(Get(nvml_->clock, device, kNvmlClockSm));
  now.memory_clock_mhz = ToInt(Get(nvml_->clock, device, kNvmlClockMemory));
  // The same under its newer name, which alone a later driver may have.
  now.clock_limits = GetLong(
      nvml_->throttle_reasons != nullptr ? nvml_->throttle_reasons : nvml_->event_reasons, device);
  now.power_w = FromMilli(Get(nvml_->power, device));
  now.energy_j = FromMilli(GetLong(nvml_->energy, device));
  now.temperature_c = ToInt(Get(nvml_->temperature, device, kNvmlTemperatureGpu));
  NvmlUtilization use{};
  if (nvml_->utilization != nullptr && nvml_->utilization(device, &use) == kNvmlSuccess) {
    now.busy_percent = static_cast<int>(use.gpu);
  }
  if (with_processes) now.processes = Processes(device);
  if (now.processes.has_value() && which.gpu_instance.has_value()) {
    std::erase_if(*now.processes, [&](const GpuProcess& process) {
      return process.gpu_instance != which.gpu_instance;
    });
  }
  return now;
}

std::vector<std::pair<int64_t, int>> Nvml::ProcessUse(const Device& device, uint64_t since_us,
                                                      uint64_t* newest_us) {
  std::vector<std::pair<int64_t, int>> out;
  *newest_us = since_us;
  if (nvml_->process_utilization == nullptr) return out;
  std::vector<NvmlProcessUtilization> samples(kMaxProcesses);
  unsigned int count = kMaxProcesses;
  if (nvml_->process_utilization(device.gpu, samples.data(), &count, since_us) != kNvmlSuccess) {
    return out;
  }
  for (unsigned int i = 0; i < std::min(count, kMaxProcesses); ++i) {
    out.emplace_back(samples[i].pid, static_cast<int>(samples[i].sm_util));
    *newest_us = std::max(*newest_us, static_cast<uint64_t>(samples[i].time_stamp));
  }
  return out;
}

}  // namespace libreyolo::gpu
