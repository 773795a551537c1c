// Which phase of a step the host is in at a time, from the spans that the program named. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/analysis/processes.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

// `step/PHASE` annotations when the trace has any; else what PyTorch and others write: data loader
// waits, optimizer steps, `## forward ##`. Data loader waits also count beside `step/` spans that
// have no dataload; only those of a thread that runs steps, as a loader's own thread holds nobody
// up. Where spans are nested the innermost counts, so no time counts twice.
class PhaseMap {
 public:
  static constexpr int kUnphased = -1;

  explicit PhaseMap(const trace::RecordedTrace& trace);
  // Of one process of a merged trace.
  PhaseMap(const trace::RecordedTrace& trace, const Processes& processes, uint32_t process);

  // The index into names(), or kUnphased. Fast for times that mostly grow.
  int Find(int64_t time_ns) const;

  const std::vector<std::string>& names() const { return names_; }
  // Host time in each phase between two times, and the spans that start there.
  struct Wall {
    int64_t time_ns = 0;
    int64_t spans = 0;
  };
  std::vector<Wall> WallBetween(int64_t start_ns, int64_t end_ns) const;

  struct Span {
    int64_t start_ns;
    int64_t end_ns;
    int phase;  // index into names()
  };
  // Disjoint, by start: the innermost phase at each time that has one.
  const std::vector<Span>& segments() const { return segments_; }

 private:
  PhaseMap(const trace::RecordedTrace& trace, absl::FunctionRef<bool(trace::ThreadId)> has_thread);
  int PhaseIndex(const std::string& name);
  void Flatten();

  std::vector<std::string> names_;
  std::vector<Span> spans_;  // as annotated, by start
  std::vector<Span> segments_;
  mutable size_t hint_ = 0;  // the segment found last
};

// Where phases stand in a step; those of unknown names come last.
int PhaseOrder(const std::string& name);

}  // namespace libreyolo::analysis
