// One profile from the trials of a repeat. Pure.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

// A copy of the last trial in which the scalar figures are the trials' means (rounded as there),
// latencies pool over the trials, and the spread of the throughput stands beside its mean.
// Verdicts that differ give "mixed". Kernel and operation lists are the last trial's. `trials` is
// not empty; with one trial the result is that trial. `profile_paths` go into `aggregation`.
Profile AggregateTrials(absl::Span<const Profile> trials,
                        absl::Span<const std::string> profile_paths);

}  // namespace libreyolo::analysis
