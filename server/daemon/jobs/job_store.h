// Where jobs outlive the daemon. Every change of state is written here before anybody hears of it.
// A seam: the daemon's is SQLite (MakeIndexJobStore), tests use one in memory. Control thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libreyolo/profile/v1/job.pb.h"

namespace libreyolo::daemon {

inline bool IsTerminal(profile::v1::JobState state) {
  return state == profile::v1::JOB_STATE_SUCCEEDED || state == profile::v1::JOB_STATE_FAILED ||
         state == profile::v1::JOB_STATE_CANCELLED;
}

struct JobRecord {
  profile::v1::Job job;           // with its spec
  std::string request_id;         // empty: none
  std::string spec_digest;        // SHA-256 of the spec's bytes: same request_id, same body?
  std::string device;             // resolved: "cpu", "cuda:0"
  int64_t sequence_reserved = 0;  // event numbers below it may have been given out
  int worker_pid = 0;             // 0: none runs
  int64_t worker_start_ticks = 0;
};

struct JobQuery {
  std::string before_id;  // empty starts at the newest
  int limit = 0;
  bool active_only = false;
  std::string principal = "";  // only this one's; empty: all
};

class JobStore {
 public:
  virtual ~JobStore() = default;
  // Inserts or replaces a row, and with `event` appends it, in one transaction.
  virtual absl::Status Put(const JobRecord& record, const profile::v1::JobEvent* event) = 0;
  virtual absl::StatusOr<std::optional<JobRecord>> Find(const std::string& id) = 0;
  virtual absl::StatusOr<std::optional<JobRecord>> FindByRequest(const std::string& principal,
                                                                 const std::string& request_id) = 0;
  // Jobs that are not terminal, oldest first.
  virtual absl::StatusOr<std::vector<JobRecord>> LoadActive() = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<JobRecord>> List(const JobQuery& query) = 0;
  // Stored events (changes of state) after `sequence`, oldest first.
  virtual absl::StatusOr<std::vector<profile::v1::JobEvent>> Events(const std::string& id,
                                                                    int64_t after_sequence) = 0;
  virtual absl::Status Delete(const std::string& id) = 0;
};

}  // namespace libreyolo::daemon
