// `ops`: the framework's operations by CPU time. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

struct OpQuery {
  int64_t top = 20;   // 0: all
  std::string phase;  // empty: the whole step
};

struct OpsReport {
  std::string trace;  // empty for null
  std::string phase;
  int64_t matched = 0;      // rows before --top
  std::vector<OpRow> rows;  // after it, in the profile's order: by self time in ours
  // False for a profile of the peer, whose times and shares include nested operations.
  bool has_self_time = false;
  std::optional<double> self_ms_per_step;  // sum over all rows, where it is known
  std::vector<job::Finding> findings;
};

// UNKNOWN_PHASE names the phases that the profile has; ARGUMENT_OUT_OF_RANGE for a negative `top`.
absl::StatusOr<OpsReport> ReportOps(const Profile& profile, const OpQuery& query);

// The `--json` document.
JsonValue ToJson(const OpsReport& report);

}  // namespace libreyolo::analysis
