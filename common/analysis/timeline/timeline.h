// A trace laid out for drawing: tracks of rows of slices that do not overlap, with names interned.
// Pure.
//
// The tracks are the steps and the phases (of each process of a merged trace, the main one's
// first), each stream of each device (kernels, copies and fills), the device's copies of
// annotations, and each host thread (annotations, operations and runtime calls, nested). An event
// stands in the first row in which everything around it has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/analysis/trace_figures.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

enum class SliceKind : uint8_t { kStep, kPhase, kKernel, kCopy, kAnnotation, kOp, kCall };
inline constexpr int kSliceKinds = 7;

inline constexpr uint32_t kNoSlice = UINT32_MAX;

struct TimelineName {
  std::string text;
  SliceKind kind = SliceKind::kOp;
  // Kernels only.
  std::string category;
  std::string label;
  bool tensorcore = false;
  // Calls only: waits for the device, or launches work on it.
  bool waits = false;
  bool launches = false;
};

struct Slice {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t name = 0;           // index of Timeline::names; of the longest event when several
  uint32_t launch = kNoSlice;  // kernels, copies: the call's slice, counted over all rows in order
  uint32_t event_count = 1;    // events that were merged into this slice
  int64_t busy_ns = 0;         // their durations added up
};

enum class TrackKind : uint8_t { kSteps, kPhases, kStream, kGpuAnnotations, kThread };

struct TimelineTrack {
  TrackKind kind = TrackKind::kThread;
  std::string name;      // "stream 7", a thread's name
  std::string detail;    // "GPU 0 · NVIDIA A100", "pid 12, tid 12"
  uint32_t process = 0;  // of a merged trace: whose steps and phases count here (processes.h)
  std::vector<std::vector<Slice>> rows;
};

struct Timeline {
  int64_t start_ns = 0;  // of the first event, on the trace's clock; 0 without events
  int64_t end_ns = 0;    // of the last
  std::vector<TimelineName> names;
  std::vector<TimelineTrack> tracks;

  int64_t event_count = 0;     // in the rows, each merged one counted
  int64_t slice_count = 0;     // in the rows
  int64_t merged_count = 0;    // events that share a slice
  int64_t merge_ns = 0;        // shorter neighbours within such a stretch were merged; 0: none
  int64_t untimed_count = 0;   // kernels and copies without a time: not drawn
  int64_t too_deep_count = 0;  // nested deeper than kMaxRows: not drawn
};

struct TimelineOptions {
  static constexpr size_t kMaxRows = 128;  // of one track

  // About the most slices that are drawn apart: above it, short neighbours in a row are merged. A
  // track keeps at least one slice in each row.
  int64_t max_slices = 1'000'000;
};

Timeline LayOutTimeline(const trace::RecordedTrace& trace, const TimelineOptions& options = {});

}  // namespace libreyolo::analysis
