#include "server/daemon/jobs/job_manager.h"

#include <unistd.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "server/daemon/jobs/active_job.h"
#include "server/daemon/launch/worker_processes.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// Event numbers are reserved in blocks, so that progress need not be stored and numbers still grow
// over a restart.
constexpr int64_t kSequenceBlock = 1000;
// What the expected wait is reckoned from.
constexpr size_t kDurationsKept = 16;

void SetTime(absl::Time time, google::protobuf::Timestamp& out) {
  const int64_t ns = absl::ToUnixNanos(time);
  out.set_seconds(ns / 1'000'000'000);
  out.set_nanos(static_cast<int32_t>(ns % 1'000'000'000));
}

void FillError(const absl::Status& status, v1::Error& out) {
  const ErrorDetail detail = GetErrorDetail(status);
  out.set_code(static_cast<int>(status.code()));
  out.set_reason(detail.reason);
  out.set_message(detail.message);
  for (const std::string& hint : detail.hints) out.add_hints(hint);
  for (const auto& [key, value] : detail.metadata) (*out.mutable_metadata())[key] = value;
}

// Equal for equal specs; map fields are absent from JobSpec, so serialisation is deterministic
// enough within one build.
std::string SpecDigest(const v1::JobSpec& spec) { return Sha256Hex(spec.SerializeAsString()); }

}  // namespace

absl::Status NoSuchJob(const std::string& id) {
  return MakeError(reason::kJobNotFound, absl::StrCat("there is no job \"", id, "\""),
                   {"libreyolo jobs list shows them"});
}

JobManager::JobManager(Deps deps, JobLimits limits) : deps_(std::move(deps)), limits_(limits) {}

JobManager::~JobManager() = default;

std::string JobManager::NewJobId() const {
  // Sorts by time, which keeps lists and history folders in order; the random part makes it
  // unguessable and unique.
  std::random_device random;
  return absl::StrFormat("%s-%08x",
                         absl::FormatTime("%Y%m%dT%H%M%S", deps_.clock.Wall(), absl::UTCTimeZone()),
                         random());
}

JobManager::Job* JobManager::FindActive(const std::string& id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

v1::Job JobManager::Snapshot(const Job& job) const { return job.record.job; }

// ---- states and events

int64_t JobManager::NextSequence(Job& job) {
  ++job.sequence;
  if (job.sequence >= job.record.sequence_reserved) {
    job.record.sequence_reserved = job.sequence + kSequenceBlock;
    Store(job, nullptr);
  }
  job.record.job.set_sequence(job.sequence);
  return job.sequence;
}

void JobManager::Store(Job& job, const v1::JobEvent* event) {
  const absl::Status status = deps_.store.Put(job.record, event);
  // The job goes on: its files are the result, the row is the record. After a crash it would read
  // as an older state.
  if (!status.ok()) LogError("job not stored", {{"job", job.id()}, {"error", status.message()}});
}

void JobManager::Move(Job& job, JobState next) {
  LY_CHECK(CanMove(job.state(), next))
      << job.id() << ": " << Name(job.state()) << " to " << Name(next);
  LogInfo("job state", {{"job", job.id()}, {"from", Name(job.state())}, {"to", Name(next)}});
  const absl::Time now = deps_.clock.Wall();
  v1::Job& record = job.record.job;
  if (deps_.observer != nullptr && next != job.state())
    deps_.observer->JobMoved(job.state(), next, record.error().reason());
  record.set_state(static_cast<v1::JobState>(next));
  if (next == JobState::kStarting && !record.has_start_time())
    SetTime(now, *record.mutable_start_time());
  if (next != JobState::kQueued) {
    record.clear_queue_position();
    record.clear_waiting_for();
    record.clear_expected_wait();
  }
  if (IsTerminal(next)) {
    SetTime(now, *record.mutable_end_time());
    record.clear_progress();
  }
  v1::JobEvent event;
  event.set_sequence(NextSequence(job));
  SetTime(now, *event.mutable_time());
  *event.mutable_job() = record;
  event.mutable_job()->clear_spec();
  Store(job, &event);
  watchers_.Publish(event);
}

void JobManager::PublishProgress(Job& job) {
  v1::JobEvent event;
  event.set_sequence(NextSequence(job));
  SetTime(deps_.clock.Wall(), *event.mutable_time());
  *event.mutable_job() = job.record.job;
  event.mutable_job()->clear_spec();
  watchers_.Publish(event);
}

// ---- requests

absl::Status JobManager::Recover(const std::map<std::string, CommittedResult>& rolled_forward) {
  LY_ASSIGN_OR_RETURN(std::vector<JobRecord> records, deps_.store.LoadActive());
  for (JobRecord& record : records) {
    auto owned = std::make_unique<Job>();
    Job& job = *owned;
    job.record = std::move(record);
    job.arrival = ++arrivals_;
    job.sequence = job.record.sequence_reserved;
    // Before the job may end: what it staged is swept by its place.
    const absl::StatusOr<job::JobSpec> spec = deps_.parse_spec(job.record.job.spec());
    if (spec.ok()) job.spec = *spec;
    job.place = {job.id(), job.spec.workspace, job.spec.project};
    jobs_.emplace(job.id(), std::move(owned));
    if (deps_.observer != nullptr) deps_.observer->JobAdded(job.state());
    if (job.state() != JobState::kQueued) {
      KillLeftoverProcesses(job.id(), job.record.worker_pid, job.record.worker_start_ticks);
    }
    const auto committed = rolled_forward.find(job.id());
    if (committed != rolled_forward.end()) {
      // The commit is the decision; the daemon died before it could write the state down.
      job.record.job.set_profile(committed->second.profile);
      job.record.job.set_trace(committed->second.trace);
      if (job.state() != JobState::kAnalyzing) {
        if (deps_.observer != nullptr)
          deps_.observer->JobMoved(job.state(), JobState::kAnalyzing, "");
        job.record.job.set_state(v1::JOB_STATE_ANALYZING);
      }
      Finish(job, JobState::kSucceeded);
      continue;
    }
    if (job.state() != JobState::kQueued) {
      job.error = MakeError(reason::kDaemonRestarted,
                            absl::StrCat("libreyolod ended while the job was ", Name(job.state()),
                                         "; its measurement is lost"),
                            {"run the command again"});
      Finish(job, JobState::kFailed);
      continue;
    }
    if (!spec.ok()) {
      job.error = spec.status();
      Finish(job, JobState::kFailed);
      continue;
    }
    queue_.push_back(job.id());
  }
  deps_.runner.Post([this] { StartQueued(); });
  return absl::OkStatus();
}

absl::Status JobManager::CheckQuota(const std::string& principal) {
  if (limits_.max_queued_per_principal <= 0) return absl::OkStatus();
  const auto waiting = std::count_if(queue_.begin(), queue_.end(), [&](const std::string& id) {
    return FindActive(id)->record.job.principal() == principal;
  });
  if (waiting < limits_.max_queued_per_principal) return absl::OkStatus();
  return MakeError(
      reason::kQuotaExceeded,
      absl::StrCat(waiting, " jobs of \"", principal,
                   "\" wait already, which is as many as one user may have"),
      {"wait until one has started, or cancel one", "libreyolo jobs list --active shows them"},
      {{"limit", absl::StrCat(limits_.max_queued_per_principal)}});
}

absl::StatusOr<v1::Job> JobManager::Submit(const Request& request) {
  const std::string digest = SpecDigest(request.wire);
  if (!request.request_id.empty()) {
    LY_ASSIGN_OR_RETURN(std::optional<JobRecord> known,
                        deps_.store.FindByRequest(request.principal, request.request_id));
    if (known.has_value()) {
      if (known->spec_digest != digest) {
        return MakeError(
            reason::kRequestIdReused,
            absl::StrCat("request id \"", request.request_id, "\" was used for another job"),
            {"send another request_id, or the same job again"}, {{"job", known->job.id()}});
      }
      return Get(known->job.id());
    }
  }
  if (draining_)
    return MakeError(reason::kDraining, "libreyolod is shutting down and takes no new jobs",
                     {"try again once it has been started again, or another server"});
  if (cordoned_) {
    return MakeError(reason::kCordoned,
                     "the server is cordoned: it finishes its jobs and takes no new ones",
                     {"try another server, or again later", "libreyolo daemon uncordon opens it"});
  }
  if (static_cast<int>(queue_.size()) >= limits_.max_queued) {
    return MakeError(reason::kQueueFull,
                     absl::StrCat("the queue is full: ", queue_.size(), " jobs wait"),
                     {"try again later", "libreyolo jobs list shows them"});
  }
  LY_RETURN_IF_ERROR(CheckQuota(request.principal));
  auto owned = std::make_unique<Job>();
  Job& job = *owned;
  v1::Job& record = job.record.job;
  record.set_id(NewJobId());
  record.set_state(v1::JOB_STATE_QUEUED);
  *record.mutable_spec() = request.wire;
  record.set_principal(request.principal);
  record.set_trial_count(request.spec.repeat);
  SetTime(deps_.clock.Wall(), *record.mutable_create_time());
  job.arrival = ++arrivals_;
  job.record.request_id = request.request_id;
  job.record.spec_digest = digest;
  job.record.device = request.device;
  job.spec = request.spec;
  job.place = {record.id(), request.spec.workspace, request.spec.project};

  job.sequence = 1;
  job.record.sequence_reserved = kSequenceBlock;
  record.set_sequence(job.sequence);
  record.set_queue_position(static_cast<int>(queue_.size()));
  v1::JobEvent event;
  event.set_sequence(job.sequence);
  *event.mutable_time() = record.create_time();
  *event.mutable_job() = record;
  event.mutable_job()->clear_spec();
  // Written ahead: a job that was answered for exists after a crash.
  LY_RETURN_IF_ERROR(deps_.store.Put(job.record, &event));
  LogInfo("job queued", {{"job", job.id()},
                         {"request", request.call_id},
                         {"principal", request.principal},
                         {"device", request.device}});
  if (deps_.observer != nullptr) deps_.observer->JobAdded(JobState::kQueued);
  const std::string id = job.id();
  jobs_.emplace(id, std::move(owned));
  queue_.push_back(id);
  StartQueued();
  return Get(id);
}

absl::StatusOr<v1::Job> JobManager::Get(const std::string& id) {
  if (const Job* job = FindActive(id)) return Snapshot(*job);
  LY_ASSIGN_OR_RETURN(std::optional<JobRecord> record, deps_.store.Find(id));
  if (!record.has_value()) return NoSuchJob(id);
  return std::move(record->job);
}

absl::StatusOr<std::vector<v1::Job>> JobManager::List(JobQuery query, std::string* next) {
  const int limit = query.limit++;
  LY_ASSIGN_OR_RETURN(std::vector<JobRecord> records, deps_.store.List(query));
  next->clear();
  if (static_cast<int>(records.size()) > limit) {
    records.resize(static_cast<size_t>(limit));
    *next = records.back().job.id();
  }
  std::vector<v1::Job> jobs;
  for (JobRecord& record : records) {
    const Job* active = FindActive(record.job.id());
    jobs.push_back(active != nullptr ? Snapshot(*active) : std::move(record.job));
  }
  return jobs;
}

absl::StatusOr<v1::Job> JobManager::Cancel(const std::string& id) {
  Job* job = FindActive(id);
  if (job == nullptr) return Get(id);
  RequestCancel(*job);
  return Get(id);
}

absl::Status JobManager::Delete(const std::string& id) {
  if (FindActive(id) != nullptr) {
    return MakeError(reason::kJobNotFinished, absl::StrCat("job ", id, " has not ended"),
                     {absl::StrCat("libreyolo jobs cancel ", id)});
  }
  LY_ASSIGN_OR_RETURN(const std::optional<JobRecord> record, deps_.store.Find(id));
  if (!record.has_value()) return NoSuchJob(id);
  LY_RETURN_IF_ERROR(deps_.store.Delete(id));
  deps_.executor.Submit([path = deps_.log_path(id)] { unlink(path.c_str()); });
  return absl::OkStatus();
}

absl::Status JobManager::Watch(const std::string& id, int64_t after_sequence,
                               const std::shared_ptr<JobSubscription>& subscription) {
  LY_ASSIGN_OR_RETURN(v1::Job now, Get(id));
  LY_ASSIGN_OR_RETURN(const std::vector<v1::JobEvent> events,
                      deps_.store.Events(id, after_sequence));
  int64_t last = after_sequence;
  for (const v1::JobEvent& event : events) {
    subscription->Push(std::make_shared<const v1::JobEvent>(event));
    last = event.sequence();
  }
  // The state as it is now, unless the last stored event said just that.
  if (events.empty() || now.sequence() > last) {
    auto event = std::make_shared<v1::JobEvent>();
    event->set_sequence(now.sequence());
    SetTime(deps_.clock.Wall(), *event->mutable_time());
    now.clear_spec();
    *event->mutable_job() = std::move(now);
    subscription->Push(event);
  }
  if (FindActive(id) != nullptr) watchers_.Add(id, subscription);
  return absl::OkStatus();
}

// ---- ends

void JobManager::RequestCancel(Job& job) {
  // What is being committed is the result; it can no longer be taken back.
  if (job.cancel_requested || job.committing) return;
  job.cancel_requested = true;
  job.cancelled->store(true);
  LogInfo("job cancel requested", {{"job", job.id()}});
  if (job.worker != nullptr) {
    job.worker->RequestCancel();
    StopWorker(job);
  }
  EndIfStopped(job);
}

void JobManager::CountCrash(absl::string_view reason) const {
  if (deps_.observer != nullptr) deps_.observer->WorkerCrashed(reason);
}

void JobManager::Fail(Job& job, absl::Status error) {
  if (job.error.ok()) job.error = std::move(error);
  job.cancelled->store(true);
  if (job.worker != nullptr) job.worker->Kill();
  EndIfStopped(job);
}

// Gives a worker that was told to stop, or that failed, a moment to end by itself.
void JobManager::StopWorker(Job& job) {
  if (job.grace != 0) return;
  job.grace = deps_.runner.RunAfter(limits_.cancel_grace, [this, id = job.id()] {
    Job* stubborn = FindActive(id);
    if (stubborn != nullptr && stubborn->worker != nullptr) stubborn->worker->Kill();
  });
}

void JobManager::EndIfStopped(Job& job) {
  if (!job.stopping() || job.worker != nullptr || job.steps_running > 0) return;
  const bool only_cancelled =
      job.error.ok() || HasReason(job.error, reason::kCancelled) || job.cancel_requested;
  if (only_cancelled) job.error = MakeError(reason::kCancelled, "the job was cancelled");
  Finish(job, only_cancelled ? JobState::kCancelled : JobState::kFailed);
}

void JobManager::Finish(Job& job, JobState state) {
  deps_.runner.CancelTimer(job.heartbeat);
  deps_.runner.CancelTimer(job.limit);
  deps_.runner.CancelTimer(job.grace);
  queue_.erase(std::remove(queue_.begin(), queue_.end(), job.id()), queue_.end());
  if (state != JobState::kSucceeded) {
    FillError(job.error, *job.record.job.mutable_error());
    LogWarning("job ended", {{"job", job.id()},
                             {"reason", job.record.job.error().reason()},
                             {"message", job.record.job.error().message()}});
  }
  if (job.lease != nullptr && job.started != -absl::InfiniteDuration()) {
    durations_.push_back(deps_.clock.Monotonic() - job.started);
    if (durations_.size() > kDurationsKept) durations_.pop_front();
  }
  if (job.lease != nullptr && deps_.observer != nullptr)
    deps_.observer->LeaseEnded(job.lease->device(), deps_.clock.Monotonic() - job.started);
  // The device is free before anybody hears that the job ended.
  job.lease.reset();
  Move(job, state);
  if (state != JobState::kSucceeded) {
    deps_.executor.Submit([steps = &deps_.steps, place = job.place] { steps->Discard(place); });
  }
  if (deps_.on_ended) deps_.on_ended(job.record.job.principal(), job.id());
  jobs_.erase(job.id());
  UpdateQuiet();
  bool running = false;
  for (const auto& [id, other] : jobs_) running = running || other->lease != nullptr;
  if (!draining_) {
    deps_.runner.Post([this] { StartQueued(); });
  } else if (on_drained_ && !running) {
    deps_.runner.Post(std::exchange(on_drained_, nullptr));
  }
}

}  // namespace libreyolo::daemon
