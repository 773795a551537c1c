#include "server/worker/workload/step_timer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace libreyolo::worker {

StepTimer::StepTimer(ClockKind clock, std::vector<std::string> phases, int step_count)
    : clock_(clock), phases_(std::move(phases)) {
  steps_.reserve(static_cast<size_t>(step_count));
  spare_.assign(static_cast<size_t>(step_count), std::vector<Span>(phases_.size()));
}

void StepTimer::BeginStep() {
  if (spare_.empty()) spare_.emplace_back(phases_.size());
  steps_.push_back({0, 0, std::move(spare_.back())});
  spare_.pop_back();
  current().begin = ReadTicks(clock_);
}

std::vector<job::TracedStep> StepTimer::Steps(const ClockLine& line) const {
  std::vector<job::TracedStep> result;
  for (const Step& step : steps_) {
    job::TracedStep out;
    out.duration_ns = line.ToMonotonicNs(step.end) - line.ToMonotonicNs(step.begin);
    for (size_t i = 0; i < phases_.size(); ++i) {
      const Span& span = step.phases[i];
      out.phases_ns.emplace_back(phases_[i],
                                 line.ToMonotonicNs(span.end) - line.ToMonotonicNs(span.begin));
    }
    result.push_back(std::move(out));
  }
  return result;
}

void StepTimer::AddMarks(int first_step, CaptureSession& session) const {
  int number = first_step;
  for (const Step& step : steps_) {
    session.AddMark(absl::StrCat("ProfilerStep#", number++), step.begin, step.end);
    for (size_t i = 0; i < phases_.size(); ++i) {
      session.AddMark(absl::StrCat("step/", phases_[i]), step.phases[i].begin, step.phases[i].end);
    }
  }
}

}  // namespace libreyolo::worker
