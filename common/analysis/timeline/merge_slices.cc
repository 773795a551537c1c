#include "common/analysis/timeline/merge_slices.h"

#include <algorithm>
#include <vector>

namespace libreyolo::analysis {
namespace {

// Walks a row and calls `begin(slice)` where a slice of its own starts and `extend(slice)` where
// one joins the slice before.
template <typename Begin, typename Extend>
void WalkMerged(const std::vector<Slice>& row, int64_t origin_ns, int64_t stretch_ns, Begin begin,
                Extend extend) {
  int64_t open_stretch = -1;  // of the run that may be extended
  for (const Slice& slice : row) {
    const bool is_short = slice.duration_ns < stretch_ns;
    const int64_t stretch = (slice.start_ns - origin_ns) / stretch_ns;
    if (is_short && stretch == open_stretch) {
      extend(slice);
    } else {
      begin(slice);
      open_stretch = is_short ? stretch : -1;
    }
  }
}

int64_t CountMerged(const Timeline& timeline, int64_t stretch_ns) {
  int64_t count = 0;
  for (const TimelineTrack& track : timeline.tracks) {
    for (const std::vector<Slice>& row : track.rows) {
      WalkMerged(
          row, timeline.start_ns, stretch_ns, [&](const Slice&) { ++count; }, [](const Slice&) {});
    }
  }
  return count;
}

// `leaders` is null for rows whose slices are no calls.
std::vector<Slice> Merge(const std::vector<Slice>& row, int64_t origin_ns, int64_t stretch_ns,
                         std::vector<uint32_t>* leaders) {
  std::vector<Slice> merged;
  int64_t longest_ns = 0;
  WalkMerged(
      row, origin_ns, stretch_ns,
      [&](const Slice& slice) {
        merged.push_back(slice);
        longest_ns = slice.duration_ns;
      },
      [&](const Slice& slice) {
        Slice& into = merged.back();
        if (slice.duration_ns > longest_ns) {
          longest_ns = slice.duration_ns;
          into.name = slice.name;
        }
        into.duration_ns = slice.start_ns + slice.duration_ns - into.start_ns;
        into.event_count += slice.event_count;
        into.busy_ns += slice.busy_ns;
        if (leaders == nullptr || slice.launch == kNoSlice) return;
        if (into.launch == kNoSlice) into.launch = slice.launch;
        (*leaders)[slice.launch] = into.launch;
      });
  return merged;
}

}  // namespace

void MergeToLimit(int64_t max_slices, Timeline& timeline, std::vector<uint32_t>& leaders) {
  timeline.slice_count = timeline.event_count;
  if (timeline.event_count <= max_slices) return;
  const int64_t span_ns = timeline.end_ns - timeline.start_ns;
  int64_t stretch_ns = 128;
  while (stretch_ns <= span_ns && CountMerged(timeline, stretch_ns) > max_slices) stretch_ns *= 2;
  timeline.merge_ns = stretch_ns;
  timeline.slice_count = 0;
  timeline.merged_count = 0;
  for (TimelineTrack& track : timeline.tracks) {
    for (std::vector<Slice>& row : track.rows) {
      row = Merge(row, timeline.start_ns, stretch_ns,
                  track.kind == TrackKind::kThread ? &leaders : nullptr);
      timeline.slice_count += static_cast<int64_t>(row.size());
      for (const Slice& slice : row) {
        if (slice.event_count > 1) timeline.merged_count += slice.event_count;
      }
    }
  }
}

}  // namespace libreyolo::analysis
