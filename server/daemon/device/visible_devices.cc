#include "server/daemon/device/visible_devices.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace libreyolo::daemon {
namespace {

// Null when the entry names none, or more than one.
const DeviceInfo* FindEntry(const std::vector<DeviceInfo>& gpus, absl::string_view entry) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(entry, &number) &&
      absl::ascii_isdigit(static_cast<unsigned char>(entry[0]))) {
    const std::string id = absl::StrCat("cuda:", number);
    const auto found =
        std::find_if(gpus.begin(), gpus.end(), [&](const DeviceInfo& gpu) { return gpu.id == id; });
    return found == gpus.end() ? nullptr : &*found;
  }
  const bool whole = absl::StartsWith(entry, "GPU-");
  if (!whole && !absl::StartsWith(entry, "MIG-")) return nullptr;
  const DeviceInfo* match = nullptr;
  for (const DeviceInfo& gpu : gpus) {
    if (gpu.uuid == entry) return &gpu;
    if (!whole || !absl::StartsWith(gpu.uuid, entry)) continue;
    if (match != nullptr) return nullptr;
    match = &gpu;
  }
  return match;
}

}  // namespace

std::vector<std::string> VisibleDevices(const std::vector<DeviceInfo>& gpus,
                                        const std::string& variable) {
  std::vector<std::string> ids;
  for (absl::string_view entry : absl::StrSplit(variable, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    const DeviceInfo* const gpu = entry.empty() ? nullptr : FindEntry(gpus, entry);
    if (gpu == nullptr || std::find(ids.begin(), ids.end(), gpu->id) != ids.end()) break;
    ids.push_back(gpu->id);
  }
  return ids;
}

}  // namespace libreyolo::daemon
