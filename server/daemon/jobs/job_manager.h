// Owns every job from its request to its end: queue, leases, workers, time limits, states, events.
// Lives on the control thread: every method is called there, and so are all callbacks. Its records
// are the API's own Job messages.
//
// Life of a job: Submit (QUEUED) -> a lease -> STARTING: Prepare on the executor, then a worker ->
// WARMING_UP -> MEASURING -> the worker ends -> ANALYZING on the executor -> the next trial
// (STARTING) or Commit -> SUCCEEDED. Anything else ends in FAILED or CANCELLED once all processes
// of the job are gone. docs/life-of-a-job.md tells it whole. Requests, states and ends are in
// job_manager.cc, the way to a worker in job_manager_queue.cc, trials in job_manager_trials.cc.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/job/job_spec.h"
#include "libreyolo/profile/v1/job.pb.h"
#include "server/daemon/device/device_pool.h"
#include "server/daemon/jobs/job_observer.h"
#include "server/daemon/jobs/job_state.h"
#include "server/daemon/jobs/job_steps.h"
#include "server/daemon/jobs/job_store.h"
#include "server/daemon/jobs/job_watch.h"
#include "server/daemon/launch/worker_launcher.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

// JOB_NOT_FOUND for `id`; what somebody else's job reads as too.
absl::Status NoSuchJob(const std::string& id);

struct JobLimits {
  int max_queued = 100;
  int max_queued_per_principal = 0;                      // 0: no limit of its own
  absl::Duration heartbeat = absl::Seconds(60);          // silence after which a worker is killed
  absl::Duration cancel_grace = absl::Seconds(3);        // from the request to SIGKILL
  absl::Duration device_poll = absl::Milliseconds(250);  // while another process holds the device
};

class JobManager {
 public:
  struct Deps {
    TaskRunner& runner;
    Executor& executor;
    Clock& clock;
    WorkerLauncher& launcher;
    DevicePool& devices;
    JobSteps& steps;
    JobStore& store;
    // Stored specs are checked again, as their caller's would be.
    std::function<absl::StatusOr<job::JobSpec>(const profile::v1::JobSpec&)> parse_spec;
    std::function<std::string(const std::string& job_id)> log_path;
    std::function<void(bool measuring)> on_measuring;  // quiet, please
    std::string build_id;
    // True while the driver still counts a process of the worker `pid` on a GPU. May block: called
    // on the executor. Empty where no GPU can be asked.
    std::function<bool(const std::string& device, int64_t pid)> is_on_device = {};
    JobObserver* observer = nullptr;  // may be null
    // A job has ended: its end is stored, or kept to be. May be empty.
    std::function<void(const std::string& principal, const std::string& id)> on_ended = {};
  };
  struct Request {
    profile::v1::JobSpec wire;
    job::JobSpec spec;  // `wire`, checked
    std::string device;
    std::string principal;
    std::string request_id;
    std::string call_id;  // of the call that asks, for the log
  };

  JobManager(Deps deps, JobLimits limits);
  ~JobManager();

  // Once, before anything else: queued jobs are queued again, what ran is FAILED
  // (DAEMON_RESTARTED), or SUCCEEDED when its commit had been decided (`rolled_forward`: the ids
  // whose results the store completed).
  absl::Status Recover(const std::map<std::string, CommittedResult>& rolled_forward);

  //   QUEUE_FULL, QUOTA_EXCEEDED, REQUEST_ID_REUSED, DRAINING, CORDONED
  absl::StatusOr<profile::v1::Job> Submit(const Request& request);
  absl::StatusOr<profile::v1::Job> Get(const std::string& id);
  // Newest first; `*next` is empty at the end.
  absl::StatusOr<std::vector<profile::v1::Job>> List(JobQuery query, std::string* next);
  absl::StatusOr<profile::v1::Job> Cancel(const std::string& id);
  // The row and the log of an ended one; its result stays.
  absl::Status Delete(const std::string& id);
  // Pushes what happened after `after_sequence`, and what will. JOB_NOT_FOUND.
  absl::Status Watch(const std::string& id, int64_t after_sequence,
                     const std::shared_ptr<JobSubscription>& subscription);

  // Takes no new jobs; running ones go on, queued ones stay stored for the next start. `done` runs
  // when none is left.
  void Drain(std::function<void()> done);
  // A cordoned manager takes no new jobs; what it has taken goes on.
  void SetCordoned(bool cordoned) { cordoned_ = cordoned; }
  // After Drain: ends the running jobs too.
  void CancelRunning();

  bool draining() const { return draining_; }
  bool cordoned() const { return cordoned_; }
  bool is_measuring() const;
  int active_count() const { return static_cast<int>(jobs_.size()); }
  size_t watcher_count() const { return watchers_.count(); }
  std::string HolderOf(const std::string& device) const { return deps_.devices.HolderOf(device); }

 private:
  struct Job;

  // Changes of state and events: the only functions that write them.
  void Move(Job& job, JobState next);
  void PublishProgress(Job& job);
  int64_t NextSequence(Job& job);
  void Store(Job& job, const profile::v1::JobEvent* event);

  absl::Status CheckQuota(const std::string& principal);
  // Puts the queue in the order of turns: each principal's first job, then their second ones.
  void OrderQueue();
  std::string DescribeTurn(size_t ahead) const;
  // How long `ahead` queued jobs and the ones that run will take, as the last jobs went; nothing
  // while no job has ended yet. Of whole minutes.
  std::optional<absl::Duration> ExpectWait(size_t ahead) const;
  void StartQueued();
  void UpdateQueue();
  void UpdateQuiet();
  void Start(Job& job, std::unique_ptr<DeviceLease> lease);
  void LaunchTrial(Job& job);
  void OnPrepared(const std::string& id, absl::StatusOr<worker_link::WorkerPlan> plan);
  void OnTrialFolder(const std::string& id, absl::StatusOr<std::string> folder);
  void OnMessage(const std::string& id, worker_link::WorkerMessage message);
  void OnExit(const std::string& id, const WorkerExit& exit);
  void AwaitDevice(const std::string& id, const WorkerExit& exit, int64_t pid);
  void AfterExit(const std::string& id, const WorkerExit& exit);
  void AnalyzeTrial(Job& job);
  void OnAnalyzed(const std::string& id, const absl::Status& status);
  void CommitJob(Job& job);
  void OnCommitted(const std::string& id, absl::StatusOr<CommittedResult> result);

  // Counts a worker that did not end as it should; JobObserver tells the reasons.
  void CountCrash(absl::string_view reason) const;
  // Ends the job with `error` as soon as no process and no step of it runs; the first error wins.
  void Fail(Job& job, absl::Status error);
  void RequestCancel(Job& job);
  void StopWorker(Job& job);
  void EndIfStopped(Job& job);
  void Finish(Job& job, JobState state);
  void ArmHeartbeat(Job& job);

  Job* FindActive(const std::string& id);
  std::string NewJobId() const;
  profile::v1::Job Snapshot(const Job& job) const;

  const Deps deps_;
  const JobLimits limits_;
  std::map<std::string, std::unique_ptr<Job>> jobs_;  // not terminal
  std::deque<std::string> queue_;                     // QUEUED, in the order of turns
  int64_t arrivals_ = 0;
  std::deque<absl::Duration> durations_;  // of the last jobs, from start to end
  JobWatchers watchers_;
  TaskRunner::TimerId poll_timer_ = 0;
  bool starting_ = false;
  bool draining_ = false;
  bool cordoned_ = false;
  std::function<void()> on_drained_;
};

}  // namespace libreyolo::daemon
