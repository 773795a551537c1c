// JobManager: one trial after the other, each in a worker of its own, to the commit.
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/jobs/active_job.h"
#include "server/daemon/jobs/job_manager.h"
#include "server/daemon/launch/worker_processes.h"

namespace libreyolo::daemon {

namespace v1 = ::libreyolo::profile::v1;

void JobManager::LaunchTrial(Job& job) {
  ++job.steps_running;
  deps_.executor.Submit(
      [this, id = job.id(), place = job.place, spec = job.spec, trial = job.record.job.trial()] {
        auto folder = deps_.steps.MakeTrialFolder(place, spec, trial);
        deps_.runner.Post([this, id, folder = std::move(folder)] { OnTrialFolder(id, folder); });
      });
}

void JobManager::OnTrialFolder(const std::string& id, absl::StatusOr<std::string> folder) {
  Job* job = FindActive(id);
  if (job == nullptr) return;
  --job->steps_running;
  if (!folder.ok()) return Fail(*job, folder.status());
  if (job->stopping()) return EndIfStopped(*job);
  job->plan.trial = job->record.job.trial();
  job->plan.staging_dir = *folder;
  job->hello = false;
  job->finished = false;
  job->measurement_json.clear();

  LaunchRequest request;
  request.plan = job->plan;
  request.log_path = deps_.log_path(id);
  request.lease_fds = job->lease->fds();
  request.time_limit_s = job->spec.time_limit_s;
  if (job->spec.threads > 0)
    request.environment.emplace_back("OMP_NUM_THREADS", absl::StrCat(job->spec.threads));
  for (auto& entry : WorkerDeviceOf(job->record.device).environment) {
    request.environment.push_back(std::move(entry));
  }
  // A GPU was looked up with it; its id holds without.
  if (job->record.device == "cpu" && !job->spec.cuda_visible_devices.empty()) {
    request.environment.emplace_back("CUDA_VISIBLE_DEVICES", job->spec.cuda_visible_devices);
  }
  WorkerEvents events;
  events.on_message = [this, id](worker_link::WorkerMessage message) {
    OnMessage(id, std::move(message));
  };
  events.on_protocol_error = [this, id](const absl::Status& status) {
    Job* broken = FindActive(id);
    if (broken == nullptr) return;
    CountCrash("protocol");
    Fail(*broken, MakeError(reason::kWorkerFailed, status.message()));
  };
  events.on_limit = [this, id](const absl::Status& status) {
    if (Job* greedy = FindActive(id)) Fail(*greedy, status);
  };
  events.on_exit = [this, id](const WorkerExit& exit) { OnExit(id, exit); };
  auto worker = deps_.launcher.Launch(request, std::move(events));
  if (!worker.ok()) {
    CountCrash("not_started");
    return Fail(*job,
                MakeError(reason::kWorkerFailed,
                          absl::StrCat("the worker cannot be started: ", worker.status().message()),
                          {"libreyolo doctor says what the worker lacks"}));
  }
  job->worker = *std::move(worker);
  job->record.worker_pid = job->worker->pid();
  job->record.worker_start_ticks = ProcessStartTicks(job->worker->pid());
  Store(*job, nullptr);
  ArmHeartbeat(*job);
}

void JobManager::ArmHeartbeat(Job& job) {
  deps_.runner.CancelTimer(job.heartbeat);
  job.heartbeat = deps_.runner.RunAfter(limits_.heartbeat, [this, id = job.id()] {
    Job* silent = FindActive(id);
    if (silent == nullptr || silent->worker == nullptr) return;
    CountCrash("silent");
    Fail(*silent,
         MakeError(reason::kWorkerSilent,
                   absl::StrCat("the worker said nothing for ",
                                absl::FormatDuration(limits_.heartbeat), " and was killed"),
                   {absl::StrCat("libreyolo jobs logs ", id)}));
  });
}

void JobManager::OnMessage(const std::string& id, worker_link::WorkerMessage message) {
  Job* job = FindActive(id);
  if (job == nullptr || job->worker == nullptr) return;
  ArmHeartbeat(*job);
  if (const auto* hello = std::get_if<worker_link::Hello>(&message)) {
    job->hello = true;
    if (hello->build_id != deps_.build_id) {
      CountCrash("build");
      Fail(*job, MakeError(reason::kWorkerMismatch,
                           absl::StrCat("the worker is of build ", hello->build_id,
                                        ", libreyolod of build ", deps_.build_id),
                           {"install both from one build, and restart libreyolod"}));
    }
    return;
  }
  if (job->stopping()) return;
  if (!job->hello) {
    CountCrash("build");
    return Fail(*job, MakeError(reason::kWorkerMismatch, "the worker did not say its build",
                                {"install both from one build, and restart libreyolod"}));
  }
  v1::JobProgress& progress = *job->record.job.mutable_progress();
  if (const auto* stage = std::get_if<worker_link::StageBegan>(&message)) {
    progress.Clear();
    progress.set_stage(stage->detail);
    const JobState next =
        stage->stage == worker_link::WorkerStage::kWarmingUp   ? JobState::kWarmingUp
        : stage->stage == worker_link::WorkerStage::kMeasuring ? JobState::kMeasuring
                                                               : JobState::kStarting;
    if (next == job->state() || !CanMove(job->state(), next)) return PublishProgress(*job);
    Move(*job, next);
    UpdateQuiet();
  } else if (const auto* done = std::get_if<worker_link::Progress>(&message)) {
    progress.set_stage(done->stage);
    progress.set_done(done->done);
    progress.set_total(done->total);
    PublishProgress(*job);
  } else if (auto* finished = std::get_if<worker_link::Finished>(&message)) {
    job->finished = true;
    job->measurement_json = std::move(finished->measurement_json);
  } else if (const auto* failed = std::get_if<worker_link::Failed>(&message)) {
    job->error = failed->status;  // the worker ends by itself; OnExit goes on
    StopWorker(*job);
  }
}

void JobManager::OnExit(const std::string& id, const WorkerExit& exit) {
  Job* job = FindActive(id);
  if (job == nullptr) return;
  deps_.runner.CancelTimer(job->heartbeat);
  deps_.runner.CancelTimer(job->grace);
  const int64_t pid = job->record.worker_pid;
  LogInfo("worker ended",
          {{"job", id}, {"pid", pid}, {"exit_code", exit.exit_code}, {"signal", exit.signal}});
  job->worker.reset();
  UpdateQuiet();
  job->record.worker_pid = 0;
  job->record.worker_start_ticks = 0;
  if (!deps_.is_on_device || job->record.device == "cpu") return AfterExit(id, exit);
  ++job->steps_running;  // the job, and with it the lease, outlasts the wait
  AwaitDevice(id, exit, pid);
}

// A process that is gone may still be on the GPU: its driver frees memory and ends kernels after
// it. The next job, or the next trial, must not measure beside that.
void JobManager::AwaitDevice(const std::string& id, const WorkerExit& exit, int64_t pid) {
  const Job* job = FindActive(id);
  if (job == nullptr) return;
  deps_.executor.Submit([this, id, exit, pid, device = job->record.device] {
    const LogScope scope("job", id);
    const bool there = deps_.is_on_device(device, pid);
    deps_.runner.Post([this, id, exit, pid, there] {
      if (there) {
        deps_.runner.RunAfter(limits_.device_poll,
                              [this, id, exit, pid] { AwaitDevice(id, exit, pid); });
        return;
      }
      if (Job* left = FindActive(id)) --left->steps_running;
      AfterExit(id, exit);
    });
  });
}

void JobManager::AfterExit(const std::string& id, const WorkerExit& exit) {
  Job* job = FindActive(id);
  if (job == nullptr) return;
  if (job->stopping()) return EndIfStopped(*job);
  if (!exit.limit.ok()) return Fail(*job, exit.limit);
  if (!job->finished || exit.signal != 0 || exit.exit_code != 0) {
    const bool quiet = exit.signal == 0 && exit.exit_code == 0;
    const char* const signal = exit.signal == 0 ? nullptr : sigabbrev_np(exit.signal);
    CountCrash(signal != nullptr ? absl::StrCat("SIG", signal) : "exit");
    std::string text = quiet ? std::string("the worker ended without a result")
                             : absl::StrCat("the worker ended with ", Describe(exit));
    if (!exit.last_log_line.empty()) absl::StrAppend(&text, ": ", exit.last_log_line);
    return Fail(*job,
                MakeError(reason::kWorkerCrashed, text, {absl::StrCat("libreyolo jobs logs ", id)},
                          {{"signal", absl::StrCat(exit.signal)},
                           {"exit_code", absl::StrCat(exit.exit_code)}}));
  }
  AnalyzeTrial(*job);
}

void JobManager::AnalyzeTrial(Job& job) {
  job.record.job.clear_progress();
  Move(job, JobState::kAnalyzing);
  ++job.steps_running;
  deps_.executor.Submit([this, id = job.id(), place = job.place, spec = job.spec,
                         trial = job.record.job.trial(), measurement = job.measurement_json] {
    const absl::Status status = deps_.steps.Analyze(place, spec, trial, measurement);
    deps_.runner.Post([this, id, status] { OnAnalyzed(id, status); });
  });
}

void JobManager::OnAnalyzed(const std::string& id, const absl::Status& status) {
  Job* job = FindActive(id);
  if (job == nullptr) return;
  --job->steps_running;
  if (!status.ok()) return Fail(*job, status);
  if (job->stopping()) return EndIfStopped(*job);
  const int next = job->record.job.trial() + 1;
  if (next == job->record.job.trial_count()) return CommitJob(*job);
  job->record.job.set_trial(next);
  Move(*job, JobState::kStarting);
  LaunchTrial(*job);
}

void JobManager::CommitJob(Job& job) {
  job.committing = true;
  ++job.steps_running;
  deps_.executor.Submit([this, id = job.id(), place = job.place, spec = job.spec] {
    auto result = deps_.steps.Commit(place, spec);
    deps_.runner.Post([this, id, result = std::move(result)] { OnCommitted(id, result); });
  });
}

void JobManager::OnCommitted(const std::string& id, absl::StatusOr<CommittedResult> result) {
  Job* job = FindActive(id);
  if (job == nullptr) return;
  --job->steps_running;
  job->committing = false;
  if (!result.ok()) return Fail(*job, result.status());
  job->record.job.set_profile(result->profile);
  job->record.job.set_trace(result->trace);
  for (const std::string& note : result->notes) job->record.job.add_notes(note);
  Finish(*job, JobState::kSucceeded);
}

}  // namespace libreyolo::daemon
