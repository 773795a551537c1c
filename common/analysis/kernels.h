// `kernels`: the kernels of a step with their share of GPU time, filtered and sorted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

enum class KernelSort { kTime, kCount, kName };

// "time", "count", "name"; ARGUMENT_INVALID for any other word.
absl::StatusOr<KernelSort> ParseKernelSort(absl::string_view word);

struct KernelQuery {
  int64_t top = 20;      // 0: all
  std::string category;  // a piece of a category's name, any case; empty: all
  std::string grep;      // RE2, any case, searched in name and label; empty: all
  bool tensorcore = false;
  KernelSort sort = KernelSort::kTime;
  std::string phase;  // empty: the whole step
};

struct KernelsReport {
  std::string trace;  // empty for null
  std::string phase;
  int64_t matched = 0;                        // rows that the filters let through, before --top
  std::vector<KernelRow> rows;                // after it
  std::optional<double> matched_ms_per_step;  // sums over the matched rows
  double matched_pct = 0;
  int64_t total = 0;  // rows before the filters
  bool on_cpu = false;
  GpuState gpu = GpuState::kUnknown;
  std::vector<job::Finding> findings;
};

// UNKNOWN_PHASE names the phases that the profile has; ARGUMENT_INVALID for a bad expression;
// ARGUMENT_OUT_OF_RANGE for a negative `top`.
absl::StatusOr<KernelsReport> ReportKernels(const Profile& profile, const KernelQuery& query);

// The `--json` document.
JsonValue ToJson(const KernelsReport& report);

// The names that --phase takes, in the profile's order.
std::vector<std::string> PhaseNames(const Profile& profile);
absl::Status UnknownPhase(const Profile& profile, absl::string_view phase);

}  // namespace libreyolo::analysis
