#include "server/daemon/jobs/retrying_job_store.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {

namespace v1 = ::libreyolo::profile::v1;

RetryingJobStore::~RetryingJobStore() {
  runner_.CancelTimer(timer_);
  timer_ = 0;
  FlushAll();
  runner_.CancelTimer(timer_);
}

absl::Status RetryingJobStore::Put(const JobRecord& record, const v1::JobEvent* event) {
  const std::string& id = record.job.id();
  const auto kept = kept_.find(id);
  if (kept == kept_.end()) {
    const absl::Status status = store_.Put(record, event);
    if (status.ok()) return status;
    const auto known = store_.Find(id);
    if (known.ok() && !known->has_value()) return status;
    Kept& fresh = kept_[id];
    fresh.record = record;
    if (event != nullptr) fresh.events.push_back(*event);
    ArmTimer();
    return status;
  }
  // Behind what is kept, or the store would read as an older state.
  kept->second.record = record;
  if (event != nullptr) kept->second.events.push_back(*event);
  return Flush(id);
}

// Each event with the record as it is now: what was in between is told by the events.
absl::Status RetryingJobStore::Flush(const std::string& id) {
  Kept& kept = kept_.at(id);
  while (!kept.events.empty()) {
    LY_RETURN_IF_ERROR(store_.Put(kept.record, &kept.events.front()));
    kept.events.erase(kept.events.begin());
  }
  LY_RETURN_IF_ERROR(store_.Put(kept.record, nullptr));
  LogInfo("job stored after all", {{"job", id}});
  kept_.erase(id);
  return absl::OkStatus();
}

void RetryingJobStore::FlushAll() {
  std::vector<std::string> ids;
  for (const auto& [id, kept] : kept_) ids.push_back(id);
  for (const std::string& id : ids) {
    if (!Flush(id).ok()) return ArmTimer();
  }
}

void RetryingJobStore::ArmTimer() {
  if (timer_ != 0) return;
  timer_ = runner_.RunAfter(interval_, [this] {
    timer_ = 0;
    FlushAll();
  });
}

absl::StatusOr<std::optional<JobRecord>> RetryingJobStore::Find(const std::string& id) {
  const auto kept = kept_.find(id);
  if (kept != kept_.end()) return kept->second.record;
  return store_.Find(id);
}

absl::StatusOr<std::optional<JobRecord>> RetryingJobStore::FindByRequest(
    const std::string& principal, const std::string& request_id) {
  LY_ASSIGN_OR_RETURN(std::optional<JobRecord> found, store_.FindByRequest(principal, request_id));
  if (!found.has_value()) return found;
  return Find(found->job.id());
}

absl::StatusOr<std::vector<JobRecord>> RetryingJobStore::List(const JobQuery& query) {
  // The store may still count as active what has ended; so many more are asked for.
  JobQuery wider = query;
  wider.limit += static_cast<int>(kept_.size());
  LY_ASSIGN_OR_RETURN(const std::vector<JobRecord> stored, store_.List(wider));
  std::vector<JobRecord> records;
  for (const JobRecord& record : stored) {
    const auto kept = kept_.find(record.job.id());
    const JobRecord& now = kept == kept_.end() ? record : kept->second.record;
    if (query.active_only && IsTerminal(now.job.state())) continue;
    if (static_cast<int>(records.size()) < query.limit) records.push_back(now);
  }
  return records;
}

absl::StatusOr<std::vector<v1::JobEvent>> RetryingJobStore::Events(const std::string& id,
                                                                   int64_t after_sequence) {
  LY_ASSIGN_OR_RETURN(std::vector<v1::JobEvent> events, store_.Events(id, after_sequence));
  const auto kept = kept_.find(id);
  if (kept == kept_.end()) return events;
  const int64_t last = events.empty() ? after_sequence : events.back().sequence();
  for (const v1::JobEvent& event : kept->second.events) {
    if (event.sequence() > last) events.push_back(event);
  }
  return events;
}

absl::Status RetryingJobStore::Delete(const std::string& id) {
  LY_RETURN_IF_ERROR(store_.Delete(id));
  kept_.erase(id);
  return absl::OkStatus();
}

}  // namespace libreyolo::daemon
