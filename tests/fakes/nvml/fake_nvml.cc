#include "tests/fakes/nvml/fake_nvml.h"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace libreyolo::gpu;  // NOLINT: the functions below are NVML's own
using libreyolo::FakeGpu;
using libreyolo::FakeMig;

std::map<std::string, std::string> ParseFields(std::istringstream& line) {
  std::map<std::string, std::string> fields;
  std::string word;
  while (line >> word) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return fields;
}

template <typename T>
void Take(const std::map<std::string, std::string>& fields, const char* key, T& value) {
  const auto found = fields.find(key);
  if (found == fields.end()) return;
  if constexpr (std::is_same_v<T, std::string>) {
    value = found->second;
  } else {
    value = static_cast<T>(std::strtoull(found->second.c_str(), nullptr, 10));
  }
}

class Fake : public libreyolo::FakeNvml {
 public:
  Fake() {
    if (const char* script = std::getenv("LIBREYOLO_FAKE_NVML_SCRIPT")) ReadScript(script);
  }

  void Reset() override {
    const std::lock_guard<std::mutex> lock(mu_);
    gpus_ = {FakeGpu()};
    init_result_ = count_result_ = kNvmlSuccess;
    hang_ = false;
    changed_.notify_all();
  }
  void SetGpus(std::vector<FakeGpu> gpus) override {
    const std::lock_guard<std::mutex> lock(mu_);
    gpus_ = std::move(gpus);
  }
  void UpdateGpu(size_t index, const FakeGpu& gpu) override {
    const std::lock_guard<std::mutex> lock(mu_);
    gpus_[index] = gpu;
  }
  void SetInitResult(NvmlReturn result) override { init_result_ = result; }
  void SetCountResult(NvmlReturn result) override { count_result_ = result; }
  void Hang() override {
    const std::lock_guard<std::mutex> lock(mu_);
    hang_ = true;
  }
  void Unhang() override {
    const std::lock_guard<std::mutex> lock(mu_);
    hang_ = false;
    changed_.notify_all();
  }
  int WaitingCalls() override {
    const std::lock_guard<std::mutex> lock(mu_);
    return waiting_;
  }

  NvmlReturn Init() {
    std::unique_lock<std::mutex> lock = Enter();
    return init_result_;
  }
  NvmlReturn Count(unsigned int* count) {
    std::unique_lock<std::mutex> lock = Enter();
    *count = static_cast<unsigned int>(gpus_.size());
    return count_result_;
  }
  const std::string& driver() const { return driver_; }

  // A handle is a number: the GPU's index plus 1, and 1000 times the instance's index plus 1.
  NvmlReturn ByIndex(unsigned int index, NvmlDevice* device) {
    std::unique_lock<std::mutex> lock = Enter();
    if (index >= gpus_.size()) return kNvmlInvalidArgument;
    *device = Handle(index, 0);
    return gpus_[index].open_result;
  }
  NvmlReturn ByUuid(const std::string& uuid, NvmlDevice* device) {
    std::unique_lock<std::mutex> lock = Enter();
    for (size_t i = 0; i < gpus_.size(); ++i) {
      if (gpus_[i].uuid == uuid) return *device = Handle(i, 0), kNvmlSuccess;
      for (size_t k = 0; k < gpus_[i].instances.size(); ++k) {
        if (gpus_[i].instances[k].uuid == uuid) return *device = Handle(i, k + 1), kNvmlSuccess;
      }
    }
    return kNvmlNotFound;
  }
  NvmlReturn MigByIndex(NvmlDevice parent, unsigned int index, NvmlDevice* device) {
    std::unique_lock<std::mutex> lock = Enter();
    const size_t gpu = GpuOf(parent);
    if (index >= gpus_[gpu].instances.size()) return kNvmlNotFound;
    *device = Handle(gpu, index + 1);
    return kNvmlSuccess;
  }

  // Runs `read(gpu, instance or null)` on the scripted device.
  template <typename Read>
  NvmlReturn With(NvmlDevice device, bool optional, Read read) {
    std::unique_lock<std::mutex> lock = Enter();
    FakeGpu& gpu = gpus_[GpuOf(device)];
    if (optional && gpu.tells_nothing) return kNvmlNotSupported;
    const size_t instance = reinterpret_cast<uintptr_t>(device) / 1000;
    return read(gpu, instance == 0 ? nullptr : &gpu.instances[instance - 1]);
  }

 private:
  std::unique_lock<std::mutex> Enter() {
    std::unique_lock<std::mutex> lock(mu_);
    ++waiting_;
    changed_.wait(lock, [this] { return !hang_; });
    --waiting_;
    return lock;
  }
  static NvmlDevice Handle(size_t gpu, size_t instance) {
    return reinterpret_cast<NvmlDevice>(instance * 1000 + gpu + 1);
  }
  static size_t GpuOf(NvmlDevice device) { return reinterpret_cast<uintptr_t>(device) % 1000 - 1; }

  void ReadScript(const char* path) {
    gpus_.clear();
    std::ifstream file(path);
    std::string text;
    while (std::getline(file, text)) {
      std::istringstream line(text);
      std::string what;
      line >> what;
      if (what == "driver") line >> driver_;
      if (what == "init") line >> init_result_;
      const auto fields = ParseFields(line);
      if (what == "gpu") AddGpu(fields);
      if (what == "process") AddProcess(fields);
      if (what == "mig") AddMig(fields);
    }
  }
  void AddGpu(const std::map<std::string, std::string>& fields) {
    FakeGpu gpu;
    Take(fields, "name", gpu.name);
    Take(fields, "uuid", gpu.uuid);
    Take(fields, "memory", gpu.memory_bytes);
    Take(fields, "used", gpu.used_bytes);
    Take(fields, "sm_clock", gpu.sm_clock);
    Take(fields, "limits", gpu.limits);
    gpus_.push_back(gpu);
  }
  void AddProcess(const std::map<std::string, std::string>& fields) {
    NvmlProcess process{0, 0, kNvmlNoInstance, kNvmlNoInstance};
    Take(fields, "pid", process.pid);
    Take(fields, "memory", process.used_gpu_memory);
    Take(fields, "instance", process.gpu_instance_id);
    gpus_.back().processes.push_back(process);
  }
  void AddMig(const std::map<std::string, std::string>& fields) {
    FakeMig mig;
    Take(fields, "uuid", mig.uuid);
    Take(fields, "name", mig.name);
    Take(fields, "memory", mig.memory_bytes);
    Take(fields, "instance", mig.gpu_instance);
    gpus_.back().mig = true;
    gpus_.back().instances.push_back(mig);
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<FakeGpu> gpus_ = {FakeGpu()};
  std::string driver_ = "580.82";
  NvmlReturn init_result_ = kNvmlSuccess;
  NvmlReturn count_result_ = kNvmlSuccess;
  bool hang_ = false;
  int waiting_ = 0;
};

Fake& Instance() {
  static auto& fake = *new Fake;
  return fake;
}

NvmlReturn PutText(const std::string& text, char* out, unsigned int size) {
  if (text.size() + 1 > size) return kNvmlInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kNvmlSuccess;
}

// A figure that every device may refuse.
template <typename Out, typename Value>
NvmlReturn Put(NvmlDevice device, Out* out, Value FakeGpu::*member) {
  return Instance().With(device, true, [&](FakeGpu& gpu, FakeMig*) {
    *out = static_cast<Out>(gpu.*member);
    return kNvmlSuccess;
  });
}

}  // namespace

FAKE_EXPORT libreyolo::FakeNvml* fakeNvmlInstance() { return &Instance(); }

FAKE_EXPORT NvmlReturn nvmlInit_v2() { return Instance().Init(); }
FAKE_EXPORT const char* nvmlErrorString(NvmlReturn result) {
  switch (result) {
    case kNvmlDriverNotLoaded:
      return "Driver Not Loaded";
    case kNvmlVersionMismatch:
      return "Driver/library version mismatch";
    case kNvmlGpuIsLost:
      return "GPU is lost";
    case kNvmlNoPermission:
      return "Insufficient Permissions";
    case kNvmlNotFound:
      return "Not Found";
    default:
      return "Unknown Error";
  }
}
FAKE_EXPORT NvmlReturn nvmlSystemGetDriverVersion(char* out, unsigned int size) {
  return PutText(Instance().driver(), out, size);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetCount_v2(unsigned int* count) {
  return Instance().Count(count);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned int index, NvmlDevice* device) {
  return Instance().ByIndex(index, device);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  return Instance().ByUuid(uuid, device);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetName(NvmlDevice device, char* out, unsigned int size) {
  return Instance().With(device, false, [&](FakeGpu& gpu, FakeMig* mig) {
    return PutText(mig != nullptr ? mig->name : gpu.name, out, size);
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetUUID(NvmlDevice device, char* out, unsigned int size) {
  return Instance().With(device, false, [&](FakeGpu& gpu, FakeMig* mig) {
    return PutText(mig != nullptr ? mig->uuid : gpu.uuid, out, size);
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory) {
  return Instance().With(device, false, [&](FakeGpu& gpu, FakeMig* mig) {
    memory->total = mig != nullptr ? mig->memory_bytes : gpu.memory_bytes;
    memory->used = mig != nullptr ? 0 : gpu.used_bytes;
    memory->free = memory->total - memory->used;
    return kNvmlSuccess;
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device,
                                                               unsigned int* count,
                                                               NvmlProcess* out) {
  return Instance().With(device, true, [&](FakeGpu& gpu, FakeMig*) {
    if (*count < gpu.processes.size()) return kNvmlInsufficientSize;
    *count = static_cast<unsigned int>(gpu.processes.size());
    std::copy(gpu.processes.begin(), gpu.processes.end(), out);
    return kNvmlSuccess;
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetProcessUtilization(NvmlDevice device,
                                                       NvmlProcessUtilization* out,
                                                       unsigned int* count,
                                                       unsigned long long since) {
  return Instance().With(device, true, [&](FakeGpu& gpu, FakeMig*) {
    unsigned int found = 0;
    for (const NvmlProcessUtilization& sample : gpu.process_use) {
      if (sample.time_stamp > since && found < *count) out[found++] = sample;
    }
    *count = found;
    return found == 0 ? kNvmlNotFound : kNvmlSuccess;
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetUtilizationRates(NvmlDevice device, NvmlUtilization* out) {
  return Put(device, &out->gpu, &FakeGpu::busy_percent);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetClockInfo(NvmlDevice device, unsigned int which,
                                              unsigned int* out) {
  return Put(device, out, which == kNvmlClockSm ? &FakeGpu::sm_clock : &FakeGpu::memory_clock);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetMaxClockInfo(NvmlDevice device, unsigned int,
                                                 unsigned int* out) {
  return Put(device, out, &FakeGpu::max_sm_clock);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetCurrentClocksThrottleReasons(NvmlDevice device,
                                                                 unsigned long long* out) {
  return Put(device, out, &FakeGpu::limits);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetPowerUsage(NvmlDevice device, unsigned int* out) {
  return Put(device, out, &FakeGpu::power_mw);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetEnforcedPowerLimit(NvmlDevice device, unsigned int* out) {
  return Put(device, out, &FakeGpu::power_limit_mw);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetTotalEnergyConsumption(NvmlDevice device,
                                                           unsigned long long* out) {
  return Instance().With(device, true, [&](FakeGpu& gpu, FakeMig*) {
    if (!gpu.energy_mj.has_value()) return kNvmlNotSupported;
    *out = *gpu.energy_mj;
    *gpu.energy_mj += gpu.energy_per_reading_mj;
    return kNvmlSuccess;
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetTemperature(NvmlDevice device, unsigned int,
                                                unsigned int* out) {
  return Put(device, out, &FakeGpu::temperature);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetPersistenceMode(NvmlDevice device, unsigned int* out) {
  return Put(device, out, &FakeGpu::persistence);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetComputeMode(NvmlDevice device, unsigned int* out) {
  return Put(device, out, &FakeGpu::compute_mode);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPciInfo* out) {
  return Instance().With(device, true, [&](FakeGpu& gpu, FakeMig*) {
    return PutText(gpu.bus_id, out->bus_id, sizeof out->bus_id);
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetMigMode(NvmlDevice device, unsigned int* now,
                                            unsigned int* pending) {
  *pending = 0;
  return Put(device, now, &FakeGpu::mig);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetMaxMigDeviceCount(NvmlDevice device, unsigned int* count) {
  return Instance().With(device, true, [&](FakeGpu& gpu, FakeMig*) {
    *count = gpu.mig ? 7 : 0;
    return kNvmlSuccess;
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetMigDeviceHandleByIndex(NvmlDevice device, unsigned int index,
                                                           NvmlDevice* out) {
  return Instance().MigByIndex(device, index, out);
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(NvmlDevice device,
                                                                    NvmlDevice* out) {
  *out = reinterpret_cast<NvmlDevice>(reinterpret_cast<uintptr_t>(device) % 1000);
  return kNvmlSuccess;
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetGpuInstanceId(NvmlDevice device, unsigned int* out) {
  return Instance().With(device, true, [&](FakeGpu&, FakeMig* mig) {
    if (mig == nullptr) return kNvmlNotSupported;
    *out = mig->gpu_instance;
    return kNvmlSuccess;
  });
}
FAKE_EXPORT NvmlReturn nvmlDeviceGetComputeInstanceId(NvmlDevice device, unsigned int* out) {
  return Instance().With(device, true, [&](FakeGpu&, FakeMig* mig) {
    *out = 0;
    return mig == nullptr ? kNvmlNotSupported : kNvmlSuccess;
  });
}
