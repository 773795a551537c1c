// `phases`: GPU and host time per phase of a step. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/analysis/profile.h"

namespace libreyolo::analysis {

struct PhasesReport {
  std::string trace;  // empty for null
  std::vector<PhaseRow> rows;
  bool on_cpu = false;
  std::vector<job::Finding> findings;
};

PhasesReport ReportPhases(const Profile& profile);

// The `--json` document.
JsonValue ToJson(const PhasesReport& report);

}  // namespace libreyolo::analysis
