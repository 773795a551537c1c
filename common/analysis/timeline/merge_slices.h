// Fewer slices where a trace has more than a page should draw. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/analysis/timeline/timeline.h"

namespace libreyolo::analysis {

// Merges neighbours in rows until at most `max_slices` are left, or no more can be: those that are
// shorter than a stretch of time and start in the same one, the stretch being the shortest power of
// two that suffices. Longer ones stay as they are, and slices never overlap. Each merged slice
// covers what it is made of, counts it, and carries the name of its longest event. Fills the
// timeline's slice_count, merged_count and merge_ns.
//
// In the rows of threads Slice::launch is the number of the call that the slice is, or kNoSlice.
// `leaders[call]` becomes the call under whose number the slice that holds it can be found.
void MergeToLimit(int64_t max_slices, Timeline& timeline, std::vector<uint32_t>& leaders);

}  // namespace libreyolo::analysis
