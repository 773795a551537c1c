// Where job state lives in time: one thread that runs tasks and timers in order. Everything that
// owns state (jobs, leases, links) is called on it alone, so that none of it needs locks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace libreyolo::daemon {

class TaskRunner {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;  // 0 is no timer

  virtual ~TaskRunner() = default;
  // Runs `task` on the runner's thread, after those posted before. Any thread.
  virtual void Post(Task task) = 0;
  // The rest: on the runner's thread only.
  virtual TimerId RunAfter(absl::Duration delay, Task task) = 0;
  // Does nothing for a timer that ran or for 0.
  virtual void CancelTimer(TimerId timer) = 0;
};

// Runs work that may block (files, parsing) beside the runner's thread.
class Executor {
 public:
  virtual ~Executor() = default;
  // Both: any thread. The daemon's own work.
  void Submit(std::function<void()> work) { SubmitFor("", std::move(work)); }
  // What `principal` asked for: it may wait behind that one's own, and others have their turns.
  virtual void SubmitFor(const std::string& principal, std::function<void()> work) = 0;
};

}  // namespace libreyolo::daemon
