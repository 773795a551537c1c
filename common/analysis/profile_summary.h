// profile_summary.json, as the Python peer leaves it beside a trace: with it the peer's own
// analysis reads our folders. Pure.
#pragma once

#include <string>

#include "common/analysis/profile.h"
#include "common/job/measurement.h"

namespace libreyolo::analysis {

// The file's bytes: indented by 2, no newline at its end.
std::string WriteProfileSummary(const Profile& profile, const job::Measurement& measurement);

}  // namespace libreyolo::analysis
