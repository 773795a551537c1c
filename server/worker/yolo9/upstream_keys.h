// The key names of the original YOLOv9 project's checkpoints ("22.heads.0.class_conv.2.weight"),
// which number the layers, turned into ours. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace libreyolo::yolo9 {

// True for keys that only such files have.
bool IsUpstreamKey(absl::string_view key);

// Our name for an upstream key; "" for one that is dropped; nothing for one that no layer of ours
// has.
std::optional<std::string> RenameUpstreamKey(absl::string_view key);

}  // namespace libreyolo::yolo9
