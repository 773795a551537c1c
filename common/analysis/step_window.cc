#include "common/analysis/step_window.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::analysis {
namespace {

// The span of all device activity, else of all host activity.
void SpanEverything(const trace::RecordedTrace& trace, StepWindow& window) {
  int64_t start = std::numeric_limits<int64_t>::max();
  int64_t end = std::numeric_limits<int64_t>::min();
  const auto extend = [&](int64_t from, int64_t duration) {
    start = std::min(start, from);
    end = std::max(end, from + duration);
  };
  for (const trace::KernelRecord& kernel : trace.kernels) {
    if (kernel.start_ns > 0) extend(kernel.start_ns, kernel.duration_ns);
  }
  if (end < start) {
    for (const trace::OpRecord& op : trace.ops) extend(op.start_ns, op.duration_ns);
    for (const trace::RuntimeCall& call : trace.calls) extend(call.start_ns, call.duration_ns);
    for (const trace::Annotation& annotation : trace.annotations) {
      if (!annotation.on_gpu) extend(annotation.start_ns, annotation.duration_ns);
    }
  }
  if (end >= start) {
    window.span_start_ns = start;
    window.span_end_ns = end;
  }
}

}  // namespace

absl::StatusOr<WindowRange> ParseWindowRange(absl::string_view text) {
  const size_t colon = text.find(':');
  const auto fail = [&] {
    return MakeError(reason::kArgumentInvalid, absl::StrCat("\"", text, "\" is no window"),
                     {"write A:B, step markers A to B - 1 counted from 0, such as 2:8 or 1:"});
  };
  if (colon == absl::string_view::npos) return fail();
  WindowRange range;
  const absl::string_view begin = text.substr(0, colon);
  const absl::string_view end = text.substr(colon + 1);
  int64_t value = 0;
  if (!begin.empty()) {
    if (!absl::SimpleAtoi(begin, &range.begin) || range.begin < 0) return fail();
  }
  if (!end.empty()) {
    if (!absl::SimpleAtoi(end, &value) || value <= range.begin) return fail();
    range.end = value;
  }
  return range;
}

absl::StatusOr<StepWindow> ChooseWindow(const trace::RecordedTrace& trace,
                                        const Processes& processes,
                                        const std::optional<WindowRange>& range, bool all_markers) {
  std::vector<trace::StepMarker> markers;  // every rank of a merged trace has its own
  StepWindow window;
  for (const trace::StepMarker& marker : trace.markers) {
    if (processes.OfThread(marker.thread) != processes.main()) continue;
    if (marker.duration_ns > 0) {
      markers.push_back(marker);
    } else {
      ++window.markers_without_length;
    }
  }
  const int64_t count = static_cast<int64_t>(markers.size());
  window.markers_in_trace = count;
  WindowRange chosen;
  if (range.has_value()) {
    chosen = *range;
    if (chosen.begin >= count) {
      return MakeError(reason::kArgumentOutOfRange,
                       absl::StrCat("the window begins at step marker ", chosen.begin,
                                    ", but the trace has ", count, " (counted from 0)"),
                       {"leave --window out for all steps, or begin earlier"});
    }
  } else if (count == 0) {
    SpanEverything(trace, window);
    return window;
  } else if (count >= 3 && !all_markers) {
    chosen.begin = 1;
  }
  const int64_t last = std::min(chosen.end.value_or(count), count);
  window.begin_ns = markers[static_cast<size_t>(chosen.begin)].start_ns;
  window.end_ns = window.begin_ns;
  for (int64_t i = chosen.begin; i < last; ++i) {
    const trace::StepMarker& marker = markers[static_cast<size_t>(i)];
    window.step_starts.push_back(marker.start_ns);
    window.end_ns = std::max(window.end_ns, marker.start_ns + marker.duration_ns);
  }
  if (last < count) window.end_ns = markers[static_cast<size_t>(last)].start_ns;
  window.span_start_ns = window.begin_ns;
  window.span_end_ns = window.end_ns;
  return window;
}

}  // namespace libreyolo::analysis
