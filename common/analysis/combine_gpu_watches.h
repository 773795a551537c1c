// What was seen of the GPU over the trials of a repeat, as one. Pure.
#pragma once

#include "absl/types/span.h"
#include "common/analysis/profile.h"
#include "common/job/measurement.h"

namespace libreyolo::analysis {

// Means of the trials' means, extremes of their extremes, energy added up, every limit and every
// foreign process once (by pid, at its highest use). Samples stay with the trials: each trial's
// times begin at 0. Trials without a watch, or whose watch was unavailable, are passed over; when
// all are, the last one's words say why.
job::GpuWatch CombineGpuWatches(absl::Span<const Profile> trials);

}  // namespace libreyolo::analysis
