// The flat list of metrics in a profile: the peer's names and order first, then ours. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/analysis/profile.h"

namespace libreyolo::analysis {

std::vector<std::pair<std::string, JsonValue>> MakeMetrics(const Profile& profile);

JsonValue ToJson(const std::optional<double>& value);
JsonValue ToJson(const std::optional<int64_t>& value);
JsonValue ToJson(const std::optional<std::string>& value);

}  // namespace libreyolo::analysis
