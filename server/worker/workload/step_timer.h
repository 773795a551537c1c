// Times the steps of the second window and the phases inside them: raw clock readings while the
// window runs, names and nanoseconds afterwards. For one thread.
//
//   StepTimer timer(clock, {"preprocess", "forward"}, 10);
//   timer.BeginStep();
//   timer.BeginPhase(0); ... timer.EndPhase(0);
//   timer.EndStep();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/job/measurement.h"
#include "server/worker/capture/capture_clock.h"
#include "server/worker/capture/capture_session.h"

namespace libreyolo::worker {

class StepTimer {
 public:
  // `phases` in the order in which a step runs them. No step allocates while `step_count` is not
  // exceeded.
  StepTimer(ClockKind clock, std::vector<std::string> phases, int step_count);

  void BeginStep();
  void BeginPhase(size_t phase) {
    if (session_ != nullptr) session_->EnterPhase(phases_[phase]);
    current().phases[phase].begin = ReadTicks(clock_);
  }
  void EndPhase(size_t phase) {
    current().phases[phase].end = ReadTicks(clock_);
    if (session_ != nullptr) session_->LeavePhase();
  }
  void EndStep() { current().end = ReadTicks(clock_); }

  // From here on `session` is told which phase runs, so that calls of the GPU carry it. It must
  // outlive the timed steps.
  void TellPhasesTo(CaptureSession& session) { session_ = &session; }

  int step_count() const { return static_cast<int>(steps_.size()); }
  std::vector<job::TracedStep> Steps(const ClockLine& line) const;
  // "ProfilerStep#N" with N from `first_step`, and "step/<phase>".
  void AddMarks(int first_step, CaptureSession& session) const;

 private:
  struct Span {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  struct Step {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::vector<Span> phases;
  };
  Step& current() { return steps_.back(); }

  const ClockKind clock_;
  const std::vector<std::string> phases_;
  CaptureSession* session_ = nullptr;
  std::vector<Step> steps_;
  std::vector<std::vector<Span>> spare_;
};

}  // namespace libreyolo::worker
