// `get`: the metrics of a profile by name. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

// Sorted by name.
std::vector<std::string> ListMetrics(const Profile& profile);

// Null when the figure cannot be known, as all GPU figures of a CPU profile. UNKNOWN_METRIC for a
// name that the profile does not have; `shown_path` is what the hint names.
absl::StatusOr<JsonValue> GetMetric(const Profile& profile, absl::string_view name,
                                    absl::string_view shown_path);

// The `--json` documents: a sorted list of names, and {name: value}.
JsonValue MetricNamesToJson(const std::vector<std::string>& names);
JsonValue MetricToJson(absl::string_view name, const JsonValue& value);

// True for a figure that means nothing where no GPU was used.
bool IsGpuMetric(absl::string_view name);

}  // namespace libreyolo::analysis
