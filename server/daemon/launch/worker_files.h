// What of the file system a worker is granted: what it is made of, the devices of the host's GPUs,
// what its job names, and the folders that it writes to.
#pragma once

#include <string>
#include <vector>

#include "server/daemon/launch/file_fence.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::daemon {

// Whether CUDA's multi-process service (MPS) runs on this host, whose clients connect to a path and
// share memory: its folder is there, and root's or this account's. Others could make one.
bool HasMultiProcessService();

// Of a whole daemon.
struct WorkerFiles {
  bool all = false;               // no fence: everything that the daemon's account may open
  std::vector<std::string> read;  // besides what follows from the plan
  // The daemon's own: of no worker but where a plan names a place in it.
  std::vector<std::string> hidden;
  // Read, hidden or not, where data may lie anywhere: the workspaces of a daemon's one user.
  std::vector<std::string> of_one_user;
};

// `worker_path` is the program. A plan whose data may lie anywhere (worker_plan.h) reads all but
// what is hidden.
FileGrants GrantsFor(const worker_link::WorkerPlan& plan, const std::string& worker_path,
                     const WorkerFiles& files);

}  // namespace libreyolo::daemon
