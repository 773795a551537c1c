// Runs the shipped libreyolo-worker as the daemon does: a process of its own with a socket pair on
// descriptor 3. Blocking, for one thread.
//
//   ASSERT_OK_AND_ASSIGN(auto worker, WorkerProcess::Start(path));
//   ASSERT_OK_AND_ASSIGN(WorkerMessage hello, worker->Receive());
//   ASSERT_OK(worker->Send(plan));
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "server/worker_link/frame.h"
#include "server/worker_link/worker_channel.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::testing {

class WorkerProcess {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const std::string& executable);
  // Kills and reaps a worker that still runs.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  absl::Status Send(const worker_link::DaemonMessage& message);
  // The next message; Unavailable at end of file.
  absl::StatusOr<worker_link::WorkerMessage> Receive();
  // All messages up to and with Finished or Failed.
  absl::StatusOr<std::vector<worker_link::WorkerMessage>> ReceiveToLast();
  // What the daemon's death looks like to the worker.
  void CloseLink() { link_.Reset(); }
  // The wait status of the ended process.
  int Wait();

 private:
  WorkerProcess(pid_t pid, UniqueFd link) : pid_(pid), link_(std::move(link)) {}

  pid_t pid_;
  UniqueFd link_;
  worker_link::FrameDecoder decoder_;
};

}  // namespace libreyolo::testing
