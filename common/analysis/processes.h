// The host processes of a trace. Mostly it is one; a merged trace of a distributed job has one for
// each rank, and each numbers its calls, steps and phases by itself. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

class Processes {
 public:
  explicit Processes(const trace::RecordedTrace& trace);

  size_t count() const { return names_.size(); }
  bool several() const { return names_.size() > 1; }
  uint32_t OfThread(trace::ThreadId thread) const { return by_thread_[thread]; }
  // As the trace writes it.
  const std::string& name(uint32_t process) const { return names_[process]; }
  // The one whose step markers count: it has the most, or is the first of those that have as many.
  uint32_t main() const { return main_; }

 private:
  std::vector<uint32_t> by_thread_;
  std::vector<std::string> names_;
  uint32_t main_ = 0;
};

}  // namespace libreyolo::analysis
