// Starting one worker process for one trial, and hearing of it until all of it is gone. Called on
// the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::daemon {

// How a worker ended.
struct WorkerExit {
  int exit_code = 0;  // valid when signal is 0
  int signal = 0;
  std::string last_log_line;  // of its stderr, may be empty
  absl::Status limit;         // the limit that ended it, if one did
};

// "exit 7", "signal 9 (Killed)".
std::string Describe(const WorkerExit& exit);

// A running worker. Destroying one kills its process group without waiting.
class WorkerSession {
 public:
  virtual ~WorkerSession() = default;
  virtual int pid() const = 0;
  // Asks it to stop at the next iteration.
  virtual void RequestCancel() = 0;
  // SIGKILL to the whole process group; on_exit follows.
  virtual void Kill() = 0;
};

struct WorkerEvents {
  std::function<void(worker_link::WorkerMessage)> on_message;
  // The link carried bytes that are no message; the worker should be killed.
  std::function<void(absl::Status)> on_protocol_error;
  // It took more than a worker may (WorkerLimits); it should be killed.
  std::function<void(absl::Status)> on_limit;
  // Once, after the last message, when no process of the group is left.
  std::function<void(WorkerExit)> on_exit;
};

struct LaunchRequest {
  worker_link::WorkerPlan plan;
  std::string log_path;        // stderr is appended here
  std::vector<int> lease_fds;  // stay open in the worker: the device is locked while it lives
  std::vector<std::pair<std::string, std::string>>
      environment;           // added to the few variables that pass through
  int64_t time_limit_s = 0;  // the job's; bounds the CPU time
};

class WorkerLauncher {
 public:
  virtual ~WorkerLauncher() = default;
  // Internal when the process cannot be started.
  virtual absl::StatusOr<std::unique_ptr<WorkerSession>> Launch(const LaunchRequest& request,
                                                                WorkerEvents events) = 0;
};

}  // namespace libreyolo::daemon
