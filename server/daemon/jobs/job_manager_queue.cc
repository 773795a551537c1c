// JobManager: which job starts when, from the queue to its worker's plan, and the drain.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "server/daemon/jobs/active_job.h"
#include "server/daemon/jobs/job_manager.h"

namespace libreyolo::daemon {

namespace v1 = ::libreyolo::profile::v1;

namespace {

void SetExpectedWait(std::optional<absl::Duration> wait, v1::Job& job) {
  if (!wait.has_value()) return job.clear_expected_wait();
  job.mutable_expected_wait()->set_seconds(absl::ToInt64Seconds(*wait));
}

}  // namespace

void JobManager::OrderQueue() {
  // Running jobs are turns that their principals have had. Sorted by turn alone: who came first
  // stays first within it, and with one principal nothing moves.
  std::map<std::string, int> turns;
  for (const auto& [id, job] : jobs_) {
    if (job->state() != JobState::kQueued) ++turns[job->record.job.principal()];
  }
  std::vector<std::string> arrival(queue_.begin(), queue_.end());
  std::sort(arrival.begin(), arrival.end(), [this](const std::string& a, const std::string& b) {
    return FindActive(a)->arrival < FindActive(b)->arrival;
  });
  std::vector<std::pair<int, std::string>> order;
  for (std::string& id : arrival) {
    const int turn = turns[FindActive(id)->record.job.principal()]++;
    order.emplace_back(turn, std::move(id));
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  queue_.clear();
  for (auto& [turn, id] : order) queue_.push_back(std::move(id));
}

std::string JobManager::DescribeTurn(size_t ahead) const {
  std::string text =
      absl::StrCat("its turn: ", ahead, ahead == 1 ? " job is" : " jobs are", " ahead");
  const std::optional<absl::Duration> wait = ExpectWait(ahead);
  if (!wait.has_value()) return text;
  const int64_t minutes = absl::ToInt64Minutes(*wait);
  absl::StrAppend(&text,
                  minutes < 1 ? ", less than a minute" : absl::StrCat(", about ", minutes, " min"),
                  " as the last jobs went");
  return text;
}

std::optional<absl::Duration> JobManager::ExpectWait(size_t ahead) const {
  if (durations_.empty()) return std::nullopt;
  absl::Duration sum;
  for (const absl::Duration duration : durations_) sum += duration;
  const absl::Duration mean = sum / static_cast<int64_t>(durations_.size());
  // The one that runs and will be over first.
  std::optional<absl::Duration> left;
  for (const auto& [id, job] : jobs_) {
    if (job->state() == JobState::kQueued) continue;
    const absl::Duration rest =
        std::max(absl::ZeroDuration(), mean - (deps_.clock.Monotonic() - job->started));
    left = left.has_value() ? std::min(*left, rest) : rest;
  }
  const absl::Duration wait =
      mean * static_cast<int64_t>(ahead) + left.value_or(absl::ZeroDuration());
  // Of whole minutes, so that watchers are not told at every look.
  return absl::Floor(wait, absl::Minutes(1));
}

void JobManager::StartQueued() {
  // Starting a job may end it at once, which starts the next one: not while this loop runs.
  if (starting_) return;
  starting_ = true;
  deps_.runner.CancelTimer(poll_timer_);
  poll_timer_ = 0;
  OrderQueue();
  bool waits_for_others = false;
  std::map<std::string, bool> blocked;  // devices whose first waiting job must stay the first
  for (size_t i = 0; i < queue_.size() && !draining_;) {
    Job& job = *FindActive(queue_[i]);
    if (blocked[job.record.device] || blocked["cpu"] || (job.record.device == "cpu" && i > 0)) {
      blocked[job.record.device] = true;
      job.record.job.set_waiting_for(DescribeTurn(i));
      SetExpectedWait(ExpectWait(i), job.record.job);
      ++i;
      continue;
    }
    absl::StatusOr<std::unique_ptr<DeviceLease>> lease =
        deps_.devices.TryAcquire(job.record.device, job.id());
    if (lease.ok()) {
      queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
      Start(job, *std::move(lease));
      continue;
    }
    if (!absl::IsUnavailable(lease.status())) {
      queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
      Fail(job, lease.status());
      continue;
    }
    blocked[job.record.device] = true;
    job.record.job.set_waiting_for(std::string(lease.status().message()));
    // Nothing is known of holders outside.
    const bool is_ours = queue_.size() < jobs_.size();
    SetExpectedWait(is_ours ? ExpectWait(i) : std::nullopt, job.record.job);
    waits_for_others = true;
    ++i;
  }
  starting_ = false;
  UpdateQueue();
  // A holder outside this daemon sends no word when it lets go.
  if (waits_for_others && !draining_) {
    poll_timer_ = deps_.runner.RunAfter(limits_.device_poll, [this] { StartQueued(); });
  }
}

void JobManager::UpdateQueue() {
  for (size_t i = 0; i < queue_.size(); ++i) {
    Job& job = *FindActive(queue_[i]);
    v1::Job& record = job.record.job;
    const std::pair<int, std::string> standing(static_cast<int>(i), record.waiting_for());
    if (job.told == standing) continue;
    job.told = standing;
    record.set_queue_position(standing.first);
    PublishProgress(job);
  }
}

void JobManager::Start(Job& job, std::unique_ptr<DeviceLease> lease) {
  job.lease = std::move(lease);
  job.started = deps_.clock.Monotonic();
  if (deps_.observer != nullptr) {
    const auto& made = job.record.job.create_time();
    deps_.observer->LeaseTaken(job.lease->device(),
                               deps_.clock.Wall() - (absl::FromUnixSeconds(made.seconds()) +
                                                     absl::Nanoseconds(made.nanos())));
  }
  job.record.job.clear_progress();
  Move(job, JobState::kStarting);
  job.limit = deps_.runner.RunAfter(absl::Seconds(job.spec.time_limit_s), [this, id = job.id()] {
    if (Job* late = FindActive(id)) {
      Fail(*late, MakeError(reason::kTimeLimit,
                            absl::StrCat("the job did not end within its limit of ",
                                         late->spec.time_limit_s, " s"),
                            {"measure less: fewer --runs, --steps or --repeat"}));
    }
  });
  ++job.steps_running;
  deps_.executor.Submit([this, id = job.id(), place = job.place, spec = job.spec,
                         device = job.record.device, cancelled = job.cancelled] {
    const auto progress = [this, id](const std::string& stage, int64_t done, int64_t total) {
      deps_.runner.Post([this, id, stage, done, total] {
        if (Job* job = FindActive(id)) {
          job->record.job.mutable_progress()->set_stage(stage);
          job->record.job.mutable_progress()->set_done(done);
          job->record.job.mutable_progress()->set_total(total);
          PublishProgress(*job);
        }
      });
    };
    auto plan = deps_.steps.Prepare(place, spec, device, *cancelled, progress);
    deps_.runner.Post([this, id, plan = std::move(plan)] { OnPrepared(id, plan); });
  });
}

void JobManager::OnPrepared(const std::string& id, absl::StatusOr<worker_link::WorkerPlan> plan) {
  Job* job = FindActive(id);
  if (job == nullptr) return;
  --job->steps_running;
  if (!plan.ok()) return Fail(*job, plan.status());
  if (job->stopping()) return EndIfStopped(*job);
  job->plan = *std::move(plan);
  LaunchTrial(*job);
}

// Readers give way while a worker measures; the steps of a job itself never do.
bool JobManager::is_measuring() const {
  bool measuring = false;
  for (const auto& [id, job] : jobs_) {
    const bool at_work =
        job->state() == JobState::kWarmingUp || job->state() == JobState::kMeasuring;
    measuring = measuring || (at_work && job->worker != nullptr);
  }
  return measuring;
}

void JobManager::UpdateQuiet() { deps_.on_measuring(is_measuring()); }

void JobManager::Drain(std::function<void()> done) {
  draining_ = true;
  deps_.runner.CancelTimer(poll_timer_);
  for (const auto& [id, job] : jobs_) {
    if (job->state() != JobState::kQueued) {
      on_drained_ = std::move(done);
      return;
    }
  }
  deps_.runner.Post(std::move(done));
}

void JobManager::CancelRunning() {
  std::vector<std::string> running;
  for (const auto& [id, job] : jobs_) {
    if (job->state() != JobState::kQueued) running.push_back(id);
  }
  for (const std::string& id : running) {
    if (Job* job = FindActive(id)) RequestCancel(*job);
  }
}

}  // namespace libreyolo::daemon
