#include "server/worker/yolo9/upstream_keys.h"

#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace libreyolo::yolo9 {
namespace {

// By upstream layer number; null where a layer has no tensors (concatenation, upsampling).
constexpr const char* kModules[] = {
    "backbone.conv0", "backbone.conv1",  "backbone.elan1", "backbone.down2",  "backbone.elan2",
    "backbone.down3", "backbone.elan3",  "backbone.down4", "backbone.elan4",  "backbone.spp",
    nullptr,          nullptr,           "neck.elan_up1",  nullptr,           nullptr,
    "neck.elan_up2",  "neck.down1",      nullptr,          "neck.elan_down1", "neck.down2",
    nullptr,          "neck.elan_down2", "head",           "aux.spp",         nullptr,
    nullptr,          "aux.elan_a4",     nullptr,          nullptr,           "aux.elan_a3",
    "aux_head",
};

bool IsNumberedConv(absl::string_view part) {
  return part.size() == 5 && absl::StartsWith(part, "conv") && part[4] >= '1' && part[4] <= '5';
}

std::optional<int> LayerNumber(absl::string_view key) {
  int layer = 0;
  const absl::string_view head = key.substr(0, key.find('.'));
  if (head.size() == key.size() || !absl::SimpleAtoi(head, &layer) || layer < 0) return {};
  return layer;
}

}  // namespace

bool IsUpstreamKey(absl::string_view key) {
  return LayerNumber(key).has_value() && absl::StrContains(key, ".heads.") &&
         (absl::StrContains(key, ".class_conv.") || absl::StrContains(key, ".anchor_conv."));
}

std::optional<std::string> RenameUpstreamKey(absl::string_view key) {
  if (absl::StrContains(key, "anc2vec")) return "";  // the fixed weights 0 to 15 of the decoding
  const std::optional<int> layer = LayerNumber(key);
  if (!layer.has_value() || *layer >= static_cast<int>(std::size(kModules)) ||
      kModules[*layer] == nullptr) {
    return {};
  }
  std::vector<std::string> parts = absl::StrSplit(key, '.');
  std::vector<std::string> renamed = {kModules[*layer]};
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part == "heads" && i + 2 < parts.size()) {
      const std::string& tower = parts[i + 2];
      if (tower != "anchor_conv" && tower != "class_conv") return {};
      renamed.push_back(tower == "anchor_conv" ? "cv2" : "cv3");
      renamed.push_back(parts[i + 1]);
      i += 2;
    } else if (part == "bottleneck") {
      renamed.push_back("m");
    } else if (IsNumberedConv(part)) {
      // Of two in a row the second is a RepConv's branch, which keeps its name.
      const bool is_branch = IsNumberedConv(parts[i - 1]);
      renamed.push_back(is_branch ? part : "cv" + part.substr(4));
    } else if (part == "conv" && i == 1 && i + 1 < parts.size() &&
               (parts[i + 1] == "conv" || parts[i + 1] == "bn")) {
      renamed.push_back("cv");  // AConv's only block
    } else {
      renamed.push_back(part);
    }
  }
  return absl::StrJoin(renamed, ".");
}

}  // namespace libreyolo::yolo9
