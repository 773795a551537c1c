// `what-if`: what a change could gain, by the contract's model on union time. Below 80 %
// utilisation a change saves launches times the host's cost per launch; above it, the time that the
// device no longer runs anything. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

struct WhatIfQuery {
  std::optional<std::string> remove_category;  // a piece of a category's name, any case
  std::optional<int64_t> remove_launches;      // calls per step
};

struct WhatIfReport {
  std::string trace;  // empty for null
  std::string bound;
  std::string mechanism;        // what is saved and why that much
  double removed_gpu_ms = 0;    // per step: the kernels' own time, 2 decimals
  double removed_launches = 0;  // per step: calls that fall away, at most those there are
  double saved_gpu_ms = 0;      // per step: what the device's busy time loses by it
  std::optional<double> step_now_ms;
  std::optional<double> step_projected_ms;  // 1 decimal
  std::optional<double> step_projected_exact_ms;
  std::optional<double> img_per_s_now;
  std::optional<double> img_per_s_projected;  // 1 decimal
  std::string caveat;
};

// ARGUMENT_INVALID when neither is asked for (an empty category counts as not asked),
// ARGUMENT_OUT_OF_RANGE for less than no launches, UNKNOWN_CATEGORY names the categories there are.
absl::StatusOr<WhatIfReport> ProjectWhatIf(const Profile& profile, const WhatIfQuery& query);

// The `--json` document.
JsonValue ToJson(const WhatIfReport& report);

}  // namespace libreyolo::analysis
