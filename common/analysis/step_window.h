// Which part of a trace is analysed: a range of its step markers, or all of it where it has none.
// Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/analysis/processes.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

// Step markers A to B - 1, counted from 0 over the host's; `end` absent means all that follow.
struct WindowRange {
  int64_t begin = 0;
  std::optional<int64_t> end;
};

// "2:8", "2:" and ":8". ARGUMENT_INVALID for anything else.
absl::StatusOr<WindowRange> ParseWindowRange(absl::string_view text);

struct StepWindow {
  // Times that count. Without markers every time does.
  int64_t begin_ns = std::numeric_limits<int64_t>::min();
  int64_t end_ns = std::numeric_limits<int64_t>::max();
  // What the window spans: those two, or without markers all device activity, or all host activity
  // where there is none; 0 and 0 when there is neither.
  int64_t span_start_ns = 0;
  int64_t span_end_ns = 0;
  std::vector<int64_t> step_starts;  // one for each step
  int64_t markers_in_trace = 0;      // of the main process, with a length
  int64_t markers_without_length = 0;

  bool Contains(int64_t time_ns) const { return time_ns >= begin_ns && time_ns < end_ns; }
};

// Without a range the markers from the second on, as the first step of a foreign trace is a cold
// one; all of them when they are fewer than three or `all_markers` is set.
// ARGUMENT_OUT_OF_RANGE when the trace has not the markers that the range asks for.
absl::StatusOr<StepWindow> ChooseWindow(const trace::RecordedTrace& trace,
                                        const Processes& processes,
                                        const std::optional<WindowRange>& range, bool all_markers);

}  // namespace libreyolo::analysis
