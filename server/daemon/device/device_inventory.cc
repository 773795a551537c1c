#include "server/daemon/device/device_inventory.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "server/daemon/device/visible_devices.h"

namespace libreyolo::daemon {
namespace {

// The value behind `key` in a "key: value" file such as /proc/cpuinfo.
std::string ValueOf(const std::string& text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, key)) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2) return std::string(absl::StripAsciiWhitespace(parts[1]));
  }
  return {};
}

int64_t MemoryBytes(const std::string& meminfo, absl::string_view key) {
  const std::string value = ValueOf(meminfo, key);  // "24573 kB"
  int64_t kib = 0;
  if (!absl::SimpleAtoi(value.substr(0, value.find(' ')), &kib)) return 0;
  return kib * 1024;
}

absl::Status Unusable(const std::string& why) {
  return MakeError(reason::kDeviceUnusable, absl::StrCat("CUDA is not usable on this host: ", why),
                   {"--device cpu measures on the CPU"});
}

std::vector<std::string> AllIds(const std::vector<DeviceInfo>& gpus) {
  std::vector<std::string> ids;
  for (const DeviceInfo& gpu : gpus) ids.push_back(gpu.id);
  return ids;
}

}  // namespace

DeviceInfo DeviceInventory::Cpu() const {
  DeviceInfo cpu;
  cpu.id = "cpu";
  const std::string cpuinfo = ReadFile(root_ + "/proc/cpuinfo").value_or("");
  cpu.description = ValueOf(cpuinfo, "model name");
  if (cpu.description.empty()) cpu.description = "CPU";
  const std::string meminfo = ReadFile(root_ + "/proc/meminfo").value_or("");
  cpu.memory_total_bytes = MemoryBytes(meminfo, "MemTotal");
  cpu.memory_used_bytes = cpu.memory_total_bytes - MemoryBytes(meminfo, "MemAvailable");
  cpu_set_t set;
  cpu.cpu_count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  return cpu;
}

std::vector<DeviceInfo> DeviceInventory::List() const {
  std::vector<DeviceInfo> devices = {Cpu()};
  const auto gpus = gpus_->ListGpus();
  if (gpus.ok()) devices.insert(devices.end(), gpus->begin(), gpus->end());
  return devices;
}

std::string DeviceInventory::CudaUnusableReason() const {
  const auto gpus = gpus_->ListGpus();
  if (!gpus.ok()) return std::string(gpus.status().message());
  if (gpus->empty()) return "the driver lists no GPU";
  for (const DeviceInfo& gpu : *gpus) {
    if (gpu.unusable.empty()) return "";
  }
  return absl::StrCat(gpus->front().id, ": ", gpus->front().unusable);
}

absl::StatusOr<std::string> DeviceInventory::Resolve(const std::string& text,
                                                     const std::string& visible) const {
  if (text == "cpu") return text;
  const auto gpus = gpus_->ListGpus();
  if (!gpus.ok()) return Unusable(std::string(gpus.status().message()));
  if (gpus->empty()) return Unusable("the driver lists no GPU");
  absl::string_view number = text;
  absl::ConsumePrefix(&number, "cuda:");
  const std::vector<std::string> seen =
      visible.empty() ? AllIds(*gpus) : VisibleDevices(*gpus, visible);
  uint32_t index = 0;
  const bool by_number = absl::SimpleAtoi(number, &index);
  for (const DeviceInfo& gpu : *gpus) {
    const auto place = std::find(seen.begin(), seen.end(), gpu.id);
    if (place == seen.end()) continue;
    const bool numbered = visible.empty() ? gpu.id == absl::StrCat("cuda:", number)
                                          : by_number && place - seen.begin() == int64_t{index};
    if (gpu.uuid != text && !numbered) continue;
    if (gpu.unusable.empty()) return gpu.id;
    return MakeError(reason::kDeviceUnusable,
                     absl::StrCat("device ", gpu.id, " cannot be used: ", gpu.unusable),
                     {"libreyolo devices lists what is there"});
  }
  if (!visible.empty()) {
    return MakeError(
        reason::kDeviceNotFound,
        absl::StrCat("there is no device \"", text, "\" with CUDA_VISIBLE_DEVICES=", visible,
                     ", which leaves ", seen.empty() ? "none" : absl::StrJoin(seen, ", ")),
        {"unset CUDA_VISIBLE_DEVICES"});
  }
  return MakeError(reason::kDeviceNotFound,
                   absl::StrCat("there is no device \"", text, "\" on this host"),
                   {absl::StrCat("it has cpu, ", absl::StrJoin(seen, ", "))});
}

bool DeviceInventory::HasProcessOf(const std::string& id, int64_t pid) const {
  const auto gpus = gpus_->ListGpus();
  if (!gpus.ok()) {
    LogWarning("device freed without asking the driver",
               {{"device", id}, {"why", gpus.status().message()}});
    return false;
  }
  for (const DeviceInfo& gpu : *gpus) {
    if (gpu.id != id) continue;
    for (const DeviceInfo::Process& process : gpu.processes) {
      if (process.pid == pid || getpgid(static_cast<pid_t>(process.pid)) == pid) return true;
    }
  }
  return false;
}

WorkerDevice WorkerDeviceOf(const std::string& id) {
  if (id == "cpu") return {id, {}};
  // CUDA numbers by speed unless told otherwise; our numbers are NVML's.
  if (absl::StartsWith(id, "cuda:")) return {id, {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}};
  return {"cuda:0", {{"CUDA_VISIBLE_DEVICES", id}}};
}

}  // namespace libreyolo::daemon
