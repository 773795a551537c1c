// The parts of a job that may block (looking up and downloading weights, analysing, committing).
// JobManager runs them on an executor; a seam, so that its tests decide how they end.
// Implementations are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/job_spec.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::daemon {

// What names a job's place in the store.
struct JobPlace {
  std::string job_id;
  std::string workspace;
  std::string project;
};

struct CommittedResult {
  std::string profile;             // paths in the workspace
  std::string trace;               // empty without one
  std::vector<std::string> notes;  // what the client should say too
};

class JobSteps {
 public:
  using ProgressFn = std::function<void(const std::string& stage, int64_t done, int64_t total)>;

  virtual ~JobSteps() = default;
  // Makes the staging folder, finds or downloads what the job reads, and fills in the plan of trial
  // 0. `cancelled` turning true ends a download early (reason CANCELLED).
  virtual absl::StatusOr<worker_link::WorkerPlan> Prepare(const JobPlace& place,
                                                          const job::JobSpec& spec,
                                                          const std::string& device,
                                                          const std::atomic<bool>& cancelled,
                                                          const ProgressFn& progress) = 0;
  // Makes the staging folder of one trial: the plan's staging_dir. An error of the store.
  virtual absl::StatusOr<std::string> MakeTrialFolder(const JobPlace& place,
                                                      const job::JobSpec& spec, int trial) = 0;
  // Analyses what trial `trial` left and writes its profile.json into the staging folder.
  virtual absl::Status Analyze(const JobPlace& place, const job::JobSpec& spec, int trial,
                               const std::string& measurement_json) = 0;
  // Aggregates the trials where there are several, and makes the whole result visible at once.
  virtual absl::StatusOr<CommittedResult> Commit(const JobPlace& place,
                                                 const job::JobSpec& spec) = 0;
  // Removes the staging folder.
  virtual void Discard(const JobPlace& place) = 0;
};

}  // namespace libreyolo::daemon
