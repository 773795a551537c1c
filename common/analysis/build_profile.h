// Profiles from what was recorded and measured. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/analysis/profile.h"
#include "common/analysis/trace_figures.h"
#include "common/job/measurement.h"
#include "common/json/json_value.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

struct BuildOptions {
  std::optional<WindowRange> window;
  // The profile_summary.json that lay beside a foreign trace; null without one.
  const JsonValue* sibling_summary = nullptr;
  // Becomes the profile's `trace`.
  std::optional<std::string> trace_path;
};

// The profile of `trace`. `measurement` is what the worker measured; when it is null the trace's
// own metadata is asked for it, then the sibling summary. ARGUMENT_OUT_OF_RANGE for a window that
// the trace does not have; TRACE_UNPARSABLE when the trace's own metadata is damaged.
absl::StatusOr<Profile> BuildProfile(const trace::RecordedTrace& trace,
                                     const job::Measurement* measurement,
                                     const BuildOptions& options = {});

// The profile of a measurement without a trace.
Profile BuildProfile(const job::Measurement& measurement);

// The measurement in a trace's metadata; absent in foreign traces.
absl::StatusOr<std::optional<job::Measurement>> MeasurementOf(const trace::RecordedTrace& trace);

// Percentiles by linear interpolation with their limits; n is latencies_ns.size(), which is not 0.
Latency SummarizeLatencies(const std::vector<int64_t>& latencies_ns);

}  // namespace libreyolo::analysis
