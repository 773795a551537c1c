// Everything that a profile's reader should know about its figures, in one table: codes, severities
// and texts. Pure.
#pragma once

#include <vector>

#include "common/analysis/profile.h"
#include "common/analysis/trace_figures.h"
#include "common/job/measurement.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

struct CaveatInput {
  const trace::RecordedTrace* trace = nullptr;  // null without a trace
  const TraceFigures* figures = nullptr;
  const job::Measurement* measurement = nullptr;  // null for a foreign trace
  const Profile* profile = nullptr;               // built so far
};

std::vector<job::Finding> CollectFindings(const CaveatInput& input);

// INVALID or SUSPECT by the gravest finding, else VALID.
Validity ValidityOf(const std::vector<job::Finding>& findings);

}  // namespace libreyolo::analysis
