// A profile as one page for a browser: verdict, tables and, with a trace, its timeline. The page
// needs nothing but itself; its policy lets no other script run and nothing be loaded. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/analysis/profile.h"
#include "common/analysis/timeline/timeline.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

struct TimelinePageInput {
  const Profile& profile;
  // Where the events come from; null when only the profile is there.
  const trace::RecordedTrace* trace = nullptr;
  std::optional<WindowRange> window;  // what the profile was asked for
  std::string shown_name;             // what the user called the trace
  std::vector<std::string> notes;     // sentences that the page shows as well
  TimelineOptions options;
};

struct TimelinePage {
  std::string html;
  int64_t event_count = 0;         // on the timeline
  int64_t slice_count = 0;         // drawn apart
  int64_t merged_count = 0;        // events in slices that hold several
  std::vector<std::string> notes;  // those of the input, then what the page does not show and why
};

// ARGUMENT_OUT_OF_RANGE for a window that the trace does not have.
absl::StatusOr<TimelinePage> RenderTimelinePage(const TimelinePageInput& input);

}  // namespace libreyolo::analysis
