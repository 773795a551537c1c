// What a window of a trace amounts to, in nanoseconds and counts: the arithmetic under a profile,
// before anything is rounded or named for people. Pure.
//
// A kernel or copy belongs to the window, the step and the phase in which its launch call STARTED;
// one without a launch call to those in which it started itself (counted in `by_time`). GPU busy is
// the union of kernel intervals of a device. Self time of an operation is its duration less that of
// the operations nested directly in it on the same thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/analysis/step_window.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

struct KernelTotals {
  trace::NameId name = 0;
  int64_t time_ns = 0;
  int64_t count = 0;
  int64_t exclusive_ns = 0;  // time in which no kernel of another name runs on that device
};

struct OpTotals {
  trace::NameId name = 0;
  int64_t time_ns = 0;
  int64_t self_ns = 0;
  int64_t count = 0;
};

struct CategoryTotals {
  std::string name;
  int64_t time_ns = 0;
  int64_t exclusive_ns = 0;  // time in which no kernel of another category runs
  int64_t launches = 0;      // calls all of whose kernels are of this category
};

struct PhaseFigures {
  std::string name;
  int64_t gpu_ns = 0;
  int64_t wall_ns = 0;  // of the host's spans inside the window
  int64_t spans = 0;
  int64_t kernel_count = 0;
  int64_t op_count = 0;
  std::vector<KernelTotals> kernels;
  std::vector<OpTotals> ops;
};

// `busy_ns` is the union of the kernels' intervals, `sum_ns` their durations added up.
struct StreamFigures {
  int32_t stream = 0;
  int64_t busy_ns = 0;
  int64_t sum_ns = 0;
  int64_t kernel_count = 0;
};

struct DeviceFigures {
  int32_t device = 0;
  int64_t busy_ns = 0;
  int64_t sum_ns = 0;
  int64_t kernel_count = 0;
  int64_t stream_count = 0;
  std::vector<StreamFigures> streams;  // by number
};

// From the start of a launch call to the start of its kernel; of a graph's kernels, the first.
struct QueueDelay {
  int64_t launches = 0;  // in the window, with a kernel that has a time
  int64_t mean_ns = 0;
  int64_t p50_ns = 0;
  int64_t max_ns = 0;
  int64_t last_ns = 0;  // of the launch whose kernel started last
  int64_t early_launches =
      0;  // not in these: the kernel's clock shows an earlier time than the call's
};

// How every record of the window was accounted for.
struct Completeness {
  int64_t kernels = 0;                  // in the window
  int64_t by_launch = 0;                // placed by their launch call
  int64_t by_time = 0;                  // without one
  int64_t graph_kernels = 0;            // started by a graph launch
  int64_t untimed_kernels = 0;          // in the whole trace, without a time: left out of all sums
  int64_t zero_duration_kernels = 0;    // in the window, counted with no time
  int64_t launches = 0;                 // calls in the window
  int64_t launches_without_kernel = 0;  // of them
  int64_t kernels_in_trace = 0;
  int64_t launches_in_trace = 0;
};

struct TraceFigures {
  // The window. Without step markers it spans all device activity, or all host activity when there
  // is none, and `steps` is 0.
  int64_t window_start_ns = 0;
  int64_t window_end_ns = 0;
  int64_t steps = 0;
  int64_t markers_in_trace = 0;  // of the main process, with a length
  int64_t markers_without_length = 0;
  int64_t process_count = 1;  // more in a merged trace of several ranks
  std::string main_process;   // whose steps and wall times these are; counts are of all

  // The GPU's pace where it lags behind the host: mean distance of the steps' last kernel ends.
  std::optional<int64_t> gpu_period_ns;

  std::vector<DeviceFigures> devices;
  int64_t busy_ns = 0;    // mean over the devices in use
  int64_t sum_ns = 0;     // of kernel durations, all devices
  int64_t tensor_ns = 0;  // of them on Tensor Cores
  int64_t copy_ns = 0;    // copies and fills, added up
  int64_t copy_count = 0;
  int64_t launches = 0;
  int64_t graph_launches = 0;
  int64_t device_allocs = 0;
  int64_t host_wait_ns = 0;               // inside synchronising calls
  std::vector<int64_t> kernels_by_step;   // by launch alone
  std::optional<QueueDelay> queue_delay;  // absent when no kernel's launch is known

  std::vector<KernelTotals> kernels;  // by time, longest first
  std::vector<OpTotals> ops;          // by self time, longest first
  int64_t op_count = 0;
  int64_t op_time_ns = 0;  // inclusive times, added up
  int64_t op_self_ns = 0;
  std::vector<CategoryTotals> categories;
  std::vector<PhaseFigures> phases;  // in the order of a step; what is in none last

  std::optional<int64_t> dataload_ns;  // absent when the trace shows no loading of data

  Completeness completeness;

  bool has_gpu_work() const { return completeness.kernels > 0; }
};

// The row of our own profiles for what lies outside of every phase.
inline constexpr char kOtherPhase[] = "other";

struct FigureOptions {
  std::optional<WindowRange> window;
  bool all_markers = false;  // without a window: from the first marker on, as our own traces want
  // What the row of all that lies outside of every phase is called.
  std::string rest_name = "unphased";
};

// ARGUMENT_OUT_OF_RANGE when the trace has not the markers that the window asks for.
absl::StatusOr<TraceFigures> ComputeFigures(const trace::RecordedTrace& trace,
                                            const FigureOptions& options);

}  // namespace libreyolo::analysis
