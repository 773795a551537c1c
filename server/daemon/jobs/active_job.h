// A job that has not ended, as JobManager's files share it. No part of its interface.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "server/daemon/jobs/job_manager.h"

namespace libreyolo::daemon {

struct JobManager::Job {
  JobRecord record;
  job::JobSpec spec;
  JobPlace place;
  int64_t sequence = 0;
  int64_t arrival = 0;                                 // grows from job to job
  absl::Duration started = -absl::InfiniteDuration();  // monotonic
  std::pair<int, std::string> told{-1, ""};  // queue position and reason that watchers know

  std::unique_ptr<DeviceLease> lease;
  std::unique_ptr<WorkerSession> worker;
  worker_link::WorkerPlan plan;
  std::string measurement_json;  // of the current trial, once it finished
  bool hello = false;
  bool finished = false;

  int steps_running = 0;  // blocking steps on the executor
  bool committing = false;
  bool cancel_requested = false;
  // Shared with a step on the executor, which may outlive an early end of the job.
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  absl::Status error;

  TaskRunner::TimerId heartbeat = 0;
  TaskRunner::TimerId limit = 0;
  TaskRunner::TimerId grace = 0;

  const std::string& id() const { return record.job.id(); }
  JobState state() const { return static_cast<JobState>(record.job.state()); }
  bool stopping() const { return !error.ok() || cancel_requested; }
};

}  // namespace libreyolo::daemon
