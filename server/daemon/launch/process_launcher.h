// Workers as real processes: each confined (confine.h) in a session of its own, descriptor 3 the
// link, stderr a log file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "common/base/fault_points.h"
#include "server/daemon/control_loop.h"
#include "server/daemon/launch/worker_files.h"
#include "server/daemon/launch/worker_launcher.h"
#include "server/daemon/launch/worker_limits.h"

namespace libreyolo::daemon {

class ProcessLauncher : public WorkerLauncher {
 public:
  struct Settings {
    std::string worker_path;      // the executable
    bool allow_network = false;   // workers get by without
    bool allow_children = false;  // libreyolo-worker starts no processes
    WorkerFiles files;
    WorkerLimits limits;
    int64_t min_free_bytes = 0;  // of the disk; a worker ends when it leaves less than half of it
    // Fault points: "launch", "spawn worker", "link send" (an error: the worker does not hear it),
    // "link receive" (an error: the link breaks).
    FaultHook at = {};
  };
  // `loop` outlives the launcher and its sessions.
  ProcessLauncher(Settings settings, ControlLoop& loop)
      : settings_(std::move(settings)),
        memory_bytes_(settings_.limits.memory_bytes > 0 ? settings_.limits.memory_bytes
                                                        : HostMemoryBytes()),
        loop_(loop) {}

  absl::StatusOr<std::unique_ptr<WorkerSession>> Launch(const LaunchRequest& request,
                                                        WorkerEvents events) override;

 private:
  absl::StatusOr<FileFence> MakeFence(const worker_link::WorkerPlan& plan);

  const Settings settings_;
  const int64_t memory_bytes_;
  ControlLoop& loop_;
  std::set<pid_t> leaders_;  // workers that live; the control thread's
  bool told_of_network_ = false;
  bool told_of_files_ = false;
  bool told_of_filter_ = false;
};

}  // namespace libreyolo::daemon
