// A job's blocking steps on the real store. Thread-safe.
#pragma once

#include "server/daemon/jobs/job_inputs.h"
#include "server/daemon/jobs/job_steps.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/layout.h"
#include "server/daemon/store/profile_store.h"
#include "server/daemon/store/retention.h"

namespace libreyolo::daemon {

class StoreSteps : public JobSteps {
 public:
  // `retention` runs after each commit. A result mentions what its project's history takes from
  // `history_mention_bytes` on.
  StoreSteps(const Layout& layout, ProfileStore& profiles, Index& index, const JobInputs& inputs,
             Retention& retention, int64_t history_mention_bytes = int64_t{5} << 30)
      : layout_(layout),
        profiles_(profiles),
        index_(index),
        inputs_(inputs),
        retention_(retention),
        history_mention_bytes_(history_mention_bytes) {}

  absl::StatusOr<worker_link::WorkerPlan> Prepare(const JobPlace& place, const job::JobSpec& spec,
                                                  const std::string& device,
                                                  const std::atomic<bool>& cancelled,
                                                  const ProgressFn& progress) override;
  absl::StatusOr<std::string> MakeTrialFolder(const JobPlace& place, const job::JobSpec& spec,
                                              int trial) override;
  absl::Status Analyze(const JobPlace& place, const job::JobSpec& spec, int trial,
                       const std::string& measurement_json) override;
  absl::StatusOr<CommittedResult> Commit(const JobPlace& place, const job::JobSpec& spec) override;
  void Discard(const JobPlace& place) override;

 private:
  void ListChanges(const JobPlace& place, const std::string& project,
                   const std::vector<std::string>& changes);
  int64_t HistoryBytes(const JobPlace& place, const std::string& project);

  const Layout& layout_;
  ProfileStore& profiles_;
  Index& index_;
  const JobInputs& inputs_;
  Retention& retention_;
  const int64_t history_mention_bytes_;
};

// The names of a job's results.
ResultNames NamesOf(const job::JobSpec& spec);
// What a committed result is called in the workspace.
CommittedResult DescribeResult(const std::string& project, const ResultNames& names, bool trace);

}  // namespace libreyolo::daemon
