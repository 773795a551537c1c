// Keeps the end of a job that could not be stored, on a full disk say, and stores it once that is
// possible again: no job stays without an end in the store for as long as the daemon lives. Until
// then readers get what is kept. What was never stored at all is not kept: its request was refused.
// Control thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/daemon/jobs/job_store.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

class RetryingJobStore : public JobStore {
 public:
  RetryingJobStore(JobStore& store, TaskRunner& runner, absl::Duration interval = absl::Seconds(1))
      : store_(store), runner_(runner), interval_(interval) {}
  // Tries once more.
  ~RetryingJobStore() override;

  // An error is that of this attempt; a job that exists is stored later all the same.
  absl::Status Put(const JobRecord& record, const profile::v1::JobEvent* event) override;
  absl::StatusOr<std::optional<JobRecord>> Find(const std::string& id) override;
  absl::StatusOr<std::optional<JobRecord>> FindByRequest(const std::string& principal,
                                                         const std::string& request_id) override;
  absl::StatusOr<std::vector<JobRecord>> LoadActive() override { return store_.LoadActive(); }
  absl::StatusOr<std::vector<JobRecord>> List(const JobQuery& query) override;
  absl::StatusOr<std::vector<profile::v1::JobEvent>> Events(const std::string& id,
                                                            int64_t after_sequence) override;
  absl::Status Delete(const std::string& id) override;

  size_t kept_count() const { return kept_.size(); }

 private:
  struct Kept {
    JobRecord record;
    std::vector<profile::v1::JobEvent> events;  // not stored yet, oldest first
  };

  absl::Status Flush(const std::string& id);
  void FlushAll();
  void ArmTimer();

  JobStore& store_;
  TaskRunner& runner_;
  const absl::Duration interval_;
  std::map<std::string, Kept> kept_;
  TaskRunner::TimerId timer_ = 0;
};

}  // namespace libreyolo::daemon
