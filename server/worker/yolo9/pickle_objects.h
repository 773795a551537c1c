// What the pickles of tensors name and call: storages, tensors, ordered dicts. Everything else has
// no name here. Pure; any thread. Private to the pickle reader.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/worker/yolo9/pickle_reader.h"

namespace libreyolo::yolo9 {

// True for the names ("module.name") that a pickle may use.
bool IsAllowedGlobal(absl::string_view name);

// The persistent id ("storage", type, key, device, element count[, view]).
absl::StatusOr<PickleStorage> ReadStorageId(const PickleValue& id);

// What the allowed callable makes of its arguments, described as data.
absl::StatusOr<PickleValue> CallGlobal(const PickleValue& callable, const PickleValue& arguments,
                                       const std::vector<PickleStorage>& storages);

}  // namespace libreyolo::yolo9
