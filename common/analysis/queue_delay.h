// How long kernels wait between the call that launches them and their start. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/analysis/trace_figures.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

class QueueDelays {
 public:
  // `calls` are RecordedTrace::calls and must outlive this.
  explicit QueueDelays(const std::vector<trace::RuntimeCall>& calls) : calls_(calls) {}

  // A kernel with a time that calls[call] launched. Of the kernels of one call (a graph's) the
  // first to start counts: the others wait for each other and not for the queue.
  void Add(size_t call, int64_t kernel_start_ns);

  // Absent when no kernel was added, or all began before their calls.
  std::optional<QueueDelay> Summarize() const;

 private:
  static constexpr int64_t kNone = INT64_MAX;

  const std::vector<trace::RuntimeCall>& calls_;
  std::vector<int64_t> first_start_ns_;  // by call; empty before there is one
};

}  // namespace libreyolo::analysis
