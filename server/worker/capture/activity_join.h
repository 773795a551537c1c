// Ties the GPU's work to the calls that started it, and accounts for every record of a capture.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "server/worker/capture/activity_source.h"

namespace libreyolo::worker {

inline constexpr int64_t kNoCall = -1;

struct ActivityJoin {
  // One for each record given, in their order.
  struct Entry {
    // False for what lies outside the window, and for driver calls that a runtime call made on its
    // own: the runtime call stands for them.
    bool kept = true;
    // GPU work: the index of the call that started it; kNoCall when it was not recorded.
    int64_t call = kNoCall;
    // Unique in the capture even where the process counted past 2^32; 0: none.
    int64_t correlation = 0;
  };
  std::vector<Entry> entries;

  // Of what is kept.
  int64_t kernel_count = 0;
  int64_t launch_count = 0;  // calls that launch kernels or graphs
  int64_t launches_without_kernel = 0;
  int64_t work_without_call = 0;  // kernels, copies and fills
  int64_t work_without_time = 0;  // likewise, with a time of 0
  // Not kept.
  int64_t out_of_window_count = 0;
  int64_t nested_call_count = 0;
};

// The window is [begin_ns, end_ns): calls belong to it by their start; GPU work by that of its
// call, or without one by any part of itself.
ActivityJoin JoinActivities(const std::vector<ActivityRecord>& records, int64_t begin_ns,
                            int64_t end_ns);

// "cudaLaunchKernel", "cuGraphLaunch": the call starts kernels.
bool IsLaunch(std::string_view call_name);

}  // namespace libreyolo::worker
