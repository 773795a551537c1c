// Our own members of profile.json: what the Python peer has no name for. Pure.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

// Appends them to the document.
void AppendExtras(const Profile& profile, JsonValue& document);

// Reads them; those that are missing or of the wrong type stay empty, so that a profile of an
// earlier or later version can be read. True when `key` is one of them.
void ReadExtras(const JsonValue& document, Profile& profile);
bool IsExtraKey(absl::string_view key);

// As in profile.json; for documents that show them too.
JsonValue DevicesToJson(const std::vector<DeviceFigures>& devices);
JsonValue QueueDelayToJson(const QueueDelay& delay);

}  // namespace libreyolo::analysis
