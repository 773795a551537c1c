// What JobManager tells whoever counts: states, waits, leases, crashes. Called on the control
// thread; must not block, nor call JobManager.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/daemon/jobs/job_state.h"

namespace libreyolo::daemon {

class JobObserver {
 public:
  virtual ~JobObserver() = default;
  // A job that is not terminal is known from now on.
  virtual void JobAdded(JobState state) = 0;
  // `reason` is the error's, empty for one that succeeded. Only of states that differ.
  virtual void JobMoved(JobState from, JobState to, const std::string& reason) = 0;
  // It got its device `queued` after it was submitted.
  virtual void LeaseTaken(const std::string& device, absl::Duration queued) = 0;
  // It gave it back `held` later.
  virtual void LeaseEnded(const std::string& device, absl::Duration held) = 0;
  // A worker did not end as it should: the signal's name ("SIGSEGV"), "exit", "silent", "build",
  // "protocol" or "not_started".
  virtual void WorkerCrashed(absl::string_view reason) = 0;
};

}  // namespace libreyolo::daemon
