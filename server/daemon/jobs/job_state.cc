#include "server/daemon/jobs/job_state.h"

namespace libreyolo::daemon {

const char* Name(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kStarting:
      return "STARTING";
    case JobState::kWarmingUp:
      return "WARMING_UP";
    case JobState::kMeasuring:
      return "MEASURING";
    case JobState::kAnalyzing:
      return "ANALYZING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

bool IsTerminal(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool CanMove(JobState from, JobState to) {
  if (IsTerminal(from)) return false;
  switch (to) {
    case JobState::kQueued:
      return false;
    case JobState::kStarting:
      return from == JobState::kQueued || from == JobState::kAnalyzing;
    case JobState::kWarmingUp:
      return from == JobState::kStarting;
    case JobState::kMeasuring:
      return from == JobState::kStarting || from == JobState::kWarmingUp;
    case JobState::kAnalyzing:
      return from == JobState::kStarting || from == JobState::kWarmingUp ||
             from == JobState::kMeasuring;
    case JobState::kSucceeded:
      return from == JobState::kAnalyzing;
    case JobState::kFailed:
    case JobState::kCancelled:
      return true;
  }
  return false;
}

}  // namespace libreyolo::daemon
