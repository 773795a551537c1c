// A worker that runs: its link, its limits, and its end with all that it started. On the control
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "common/base/fault_points.h"
#include "common/base/unique_fd.h"
#include "server/daemon/control_loop.h"
#include "server/daemon/launch/worker_launcher.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::daemon {

struct SessionDeps {
  ControlLoop& loop;
  FaultHook at;
  std::set<pid_t>& leaders;  // the workers that live
  // What the daemon itself looks after, twice a second.
  int64_t memory_bytes;
  int64_t cpu_seconds;     // looked after by the kernel; named in the error
  int64_t min_free_bytes;  // half of it must stay
  std::string log_path;
};

// Takes over the worker `pid`, a child of this process, and gives it its orders over `link`.
std::unique_ptr<WorkerSession> StartSession(SessionDeps deps, pid_t pid, UniqueFd link,
                                            const worker_link::WorkerPlan& plan,
                                            WorkerEvents events);

}  // namespace libreyolo::daemon
