// The states of a job and which may follow which. Pure.
#pragma once

namespace libreyolo::daemon {

// The numbers equal libreyolo.profile.v1.JobState and stand in the index: never renumber.
enum class JobState {
  kQueued = 1,
  kStarting = 2,
  kWarmingUp = 3,
  kMeasuring = 4,
  kAnalyzing = 5,
  kSucceeded = 6,
  kFailed = 7,
  kCancelled = 8,
};

// "QUEUED"
const char* Name(JobState state);
bool IsTerminal(JobState state);
// STARTING may follow ANALYZING only when trials are left, which the caller knows.
bool CanMove(JobState from, JobState to);

}  // namespace libreyolo::daemon
