// The life of jobs, with time, workers, blocking steps and the store in the test's hands. The same
// through the shipped daemon is in tests/integration.
#include "server/daemon/jobs/job_manager.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "common/rpc/parse_job_spec.h"
#include "tests/support/manual_runner.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/jobs/job_fakes.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::ManualExecutor;
using ::libreyolo::testing::ManualRunner;
using ::libreyolo::testing::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class JobManagerTest : public ::testing::Test {
 protected:
  JobManagerTest() : devices_(locks_.path()) { Restart(); }

  // What is in memory is lost, what the store has is not.
  void Restart(const std::map<std::string, CommittedResult>& rolled_forward = {}) {
    jobs_.reset();
    jobs_ = std::make_unique<JobManager>(
        JobManager::Deps{runner_, executor_, runner_, launcher_, devices_, steps_, store_,
                         &rpc::ParseJobSpec, [this](const std::string& id) { return LogOf(id); },
                         [this](bool measuring) { quiet_ = measuring; }, "build-1",
                         [this](const std::string& device, int64_t pid) {
                           asked_.emplace_back(device, pid);
                           return still_on_device_;
                         },
                         nullptr,
                         [this](const std::string& principal, const std::string& id) {
                           ended_.emplace_back(principal, id);
                         }},
        limits_);
    ASSERT_OK(jobs_->Recover(rolled_forward));
    RunAll();
  }
  // Everything that waits for nobody: posted tasks and blocking steps.
  void RunAll() {
    runner_.RunPosted();
    while (executor_.pending() > 0) {
      executor_.RunOne();
      runner_.RunPosted();
    }
  }
  static JobManager::Request RequestFor(const std::string& device, int repeat = 1) {
    JobManager::Request request;
    request.wire.set_device(device);
    request.wire.set_repeat(repeat);
    request.wire.mutable_infer()->set_runs(5);
    const auto spec = rpc::ParseJobSpec(request.wire);
    EXPECT_OK(spec);
    request.spec = *spec;
    request.device = device;
    request.principal = "owner";
    return request;
  }
  std::string Submit(const JobManager::Request& request) {
    const auto job = jobs_->Submit(request);
    EXPECT_OK(job);
    return job.ok() ? job->id() : "";
  }
  // A job with a worker that has not said anything yet.
  std::string Begin(const JobManager::Request& request = RequestFor("cpu")) {
    const std::string id = Submit(request);
    RunAll();
    return id;
  }
  FakeWorker& worker() { return *launcher_.workers.back(); }
  void SayHello() { worker().Say(worker_link::Hello{"build-1", 1}); }
  void SayStage(worker_link::WorkerStage stage) {
    worker().Say(worker_link::StageBegan{stage, "scripted"});
  }
  void Warm() {
    SayHello();
    SayStage(worker_link::WorkerStage::kWarmingUp);
  }
  void Measure() {
    Warm();
    SayStage(worker_link::WorkerStage::kMeasuring);
  }
  // A trial's good end; its analysis waits on the executor.
  void EndTrial() {
    worker().Say(worker_link::Finished{"measured", 0});
    worker().Exit(0);
  }
  v1::Job Get(const std::string& id) {
    const auto job = jobs_->Get(id);
    EXPECT_OK(job);
    return job.value_or(v1::Job());
  }
  std::string State(const std::string& id) { return v1::JobState_Name(Get(id).state()).substr(10); }
  std::string Reason(const std::string& id) { return Get(id).error().reason(); }
  std::vector<std::string> StoredStates(const std::string& id) const {
    std::vector<std::string> states;
    const auto events = store_.events.find(id);
    if (events == store_.events.end()) return states;
    for (const v1::JobEvent& event : events->second) {
      states.push_back(v1::JobState_Name(event.job().state()).substr(10));
    }
    return states;
  }
  std::string LogOf(const std::string& id) const { return locks_ / (id + ".log"); }
  std::string Holder(const std::string& device) { return devices_.HolderOf(device); }

  bool still_on_device_ = false;  // what the driver says of a worker that is gone
  std::vector<std::pair<std::string, int64_t>> asked_;
  std::vector<std::pair<std::string, std::string>> ended_;
  TempDir locks_;
  ManualRunner runner_;
  ManualExecutor executor_;
  FakeLauncher launcher_;
  DevicePool devices_;
  FakeSteps steps_;
  MemoryJobStore store_;
  JobLimits limits_;
  bool quiet_ = false;
  std::unique_ptr<JobManager> jobs_;
};

// ---- the good way

TEST_F(JobManagerTest, AJobGoesThroughItsStates) {
  const std::string id = Submit(RequestFor("cpu"));
  EXPECT_EQ(State(id), "STARTING") << "a free device is taken at once";
  EXPECT_EQ(Holder("cpu"), id);
  RunAll();
  ASSERT_EQ(launcher_.workers.size(), 1u);
  EXPECT_EQ(worker().request.plan.staging_dir, "/staging/0");
  EXPECT_EQ(worker().request.log_path, LogOf(id));
  EXPECT_EQ(worker().request.lease_fds.size(), 2u) << "the device's lock and the host's";
  EXPECT_FALSE(quiet_);
  Measure();
  EXPECT_EQ(State(id), "MEASURING");
  EXPECT_TRUE(quiet_);
  EndTrial();
  EXPECT_EQ(State(id), "ANALYZING");
  EXPECT_FALSE(quiet_);
  EXPECT_EQ(Holder("cpu"), id);
  RunAll();
  const v1::Job job = Get(id);
  EXPECT_EQ(State(id), "SUCCEEDED");
  EXPECT_EQ(job.profile(), "runs/profile/infer/profile.json");
  EXPECT_THAT(job.notes(), ElementsAre("a note"));
  EXPECT_TRUE(job.has_start_time() && job.has_end_time());
  EXPECT_EQ(Holder("cpu"), "");
  EXPECT_THAT(StoredStates(id), ElementsAre("QUEUED", "STARTING", "WARMING_UP", "MEASURING",
                                            "ANALYZING", "SUCCEEDED"));
  EXPECT_THAT(steps_.calls, ElementsAre("prepare", "folder 0", "analyze 0 measured", "commit"));
  EXPECT_EQ(jobs_->active_count(), 0);
  EXPECT_EQ(runner_.timer_count(), 0u) << "no timer of it is left";
}

TEST_F(JobManagerTest, TrialsRunInFreshWorkersUnderOneLease) {
  const std::string id = Begin(RequestFor("cpu", 3));
  for (int trial = 0; trial < 3; ++trial) {
    ASSERT_EQ(launcher_.workers.size(), size_t(trial) + 1);
    EXPECT_EQ(worker().request.plan.trial, trial);
    EXPECT_EQ(Get(id).trial(), trial);
    EXPECT_EQ(Get(id).trial_count(), 3);
    EXPECT_EQ(Holder("cpu"), id);
    Measure();
    EndTrial();
    EXPECT_TRUE(launcher_.workers[trial]->destroyed);
    EXPECT_THAT(steps_.calls, Not(Contains("commit")));
    RunAll();
  }
  EXPECT_EQ(State(id), "SUCCEEDED");
  EXPECT_THAT(StoredStates(id),
              ElementsAre("QUEUED", "STARTING", "WARMING_UP", "MEASURING", "ANALYZING", "STARTING",
                          "WARMING_UP", "MEASURING", "ANALYZING", "STARTING", "WARMING_UP",
                          "MEASURING", "ANALYZING", "SUCCEEDED"));
  EXPECT_THAT(steps_.calls,
              ElementsAre("prepare", "folder 0", "analyze 0 measured", "folder 1",
                          "analyze 1 measured", "folder 2", "analyze 2 measured", "commit"));
}

TEST_F(JobManagerTest, AWorkerSeesOnlyTheJobsEnvironment) {
  JobManager::Request request = RequestFor("cpu");
  request.spec.threads = 3;
  request.spec.cuda_visible_devices = "1";
  Begin(request);
  EXPECT_THAT(worker().request.environment,
              ElementsAre(std::make_pair("OMP_NUM_THREADS", "3"),
                          std::make_pair("CUDA_VISIBLE_DEVICES", "1")));
}

TEST_F(JobManagerTest, AGpuIsFreeOnlyWhenItsDriverHasLetTheWorkerGo) {
  const std::string id = Begin(RequestFor("cuda:0"));
  Measure();
  still_on_device_ = true;
  worker().Exit(0, 11, "");
  RunAll();
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].first, "cuda:0");
  EXPECT_EQ(Holder("cuda:0"), id);
  EXPECT_EQ(State(id), "MEASURING");
  const std::string next = Submit(RequestFor("cuda:0"));
  RunAll();
  EXPECT_EQ(State(next), "QUEUED");
  still_on_device_ = false;
  runner_.Advance(limits_.device_poll);
  RunAll();
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_EQ(Reason(id), "WORKER_CRASHED");
  EXPECT_EQ(Holder("cuda:0"), next);
}

TEST_F(JobManagerTest, ACancelledJobsGpuIsWaitedForToo) {
  const std::string id = Begin(RequestFor("cuda:0"));
  Measure();
  still_on_device_ = true;
  ASSERT_OK(jobs_->Cancel(id));
  worker().Exit(0, 9, "");
  RunAll();
  EXPECT_EQ(Holder("cuda:0"), id);
  still_on_device_ = false;
  runner_.Advance(limits_.device_poll);
  RunAll();
  EXPECT_EQ(State(id), "CANCELLED");
  EXPECT_EQ(Holder("cuda:0"), "");
}

// ---- failures

TEST_F(JobManagerTest, ACrashIsToldWithItsSignalAndLastLine) {
  const std::string id = Begin();
  Measure();
  worker().Exit(0, 11, "at::native::conv2d");
  RunAll();
  const v1::Job job = Get(id);
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_EQ(job.error().reason(), "WORKER_CRASHED");
  EXPECT_THAT(job.error().message(), HasSubstr("signal 11"));
  EXPECT_THAT(job.error().message(), HasSubstr("at::native::conv2d"));
  EXPECT_EQ(job.error().metadata().at("signal"), "11");
  EXPECT_EQ(Holder("cpu"), "");
  EXPECT_EQ(steps_.calls.back(), "discard");
}

TEST_F(JobManagerTest, AnEndWithoutAResultIsACrash) {
  const std::string quiet = Begin();
  Measure();
  worker().Exit(0);
  EXPECT_EQ(Reason(quiet), "WORKER_CRASHED");
  EXPECT_THAT(Get(quiet).error().message(), HasSubstr("without a result"));
  // Also after its measurement was told: what it wrote cannot be trusted.
  RunAll();
  const std::string late = Begin();
  Measure();
  worker().Say(worker_link::Finished{"measured", 0});
  worker().Exit(1);
  EXPECT_EQ(Reason(late), "WORKER_CRASHED");
  RunAll();
  EXPECT_THAT(steps_.calls, Not(Contains("commit")));
}

TEST_F(JobManagerTest, WhatAWorkerFailsWithIsTheJobsError) {
  const std::string id = Begin();
  Warm();
  worker().Say(worker_link::Failed{MakeError(reason::kOutOfMemory, "no memory", {"--batch 1"})});
  EXPECT_EQ(State(id), "WARMING_UP") << "it ends once its processes are gone";
  worker().Exit(1);
  RunAll();
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_EQ(Reason(id), "OUT_OF_MEMORY");
  EXPECT_THAT(Get(id).error().hints(), ElementsAre("--batch 1"));
}

TEST_F(JobManagerTest, AWorkerThatFailedButDoesNotEndIsKilled) {
  Begin();
  Warm();
  worker().Say(worker_link::Failed{MakeError(reason::kOutOfMemory, "no memory")});
  runner_.Advance(limits_.cancel_grace - absl::Milliseconds(1));
  EXPECT_EQ(worker().kill_count, 0);
  runner_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(worker().kill_count, 1);
}

TEST_F(JobManagerTest, OneFailedTrialFailsTheJobAndCommitsNothing) {
  const std::string id = Begin(RequestFor("cpu", 3));
  Measure();
  EndTrial();
  RunAll();
  Measure();
  worker().Exit(7);
  RunAll();
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_EQ(launcher_.workers.size(), 2u);
  EXPECT_THAT(steps_.calls, Not(Contains("commit")));
  EXPECT_EQ(steps_.calls.back(), "discard");
}

TEST_F(JobManagerTest, ASilentWorkerIsKilled) {
  const std::string id = Begin();
  runner_.Advance(limits_.heartbeat - absl::Seconds(1));
  SayHello();  // any word counts
  runner_.Advance(limits_.heartbeat - absl::Seconds(1));
  worker().Say(worker_link::Heartbeat{});
  runner_.Advance(limits_.heartbeat - absl::Seconds(1));
  EXPECT_EQ(worker().kill_count, 0);
  runner_.Advance(absl::Seconds(1));
  EXPECT_EQ(worker().kill_count, 1);
  EXPECT_EQ(State(id), "STARTING") << "the device is not free yet";
  EXPECT_EQ(Holder("cpu"), id);
  worker().Exit(0, 9);
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_EQ(Reason(id), "WORKER_SILENT") << "not the crash that the kill looks like";
  EXPECT_EQ(Holder("cpu"), "");
}

TEST_F(JobManagerTest, AJobOverItsTimeLimitIsKilled) {
  JobManager::Request request = RequestFor("cpu", 2);
  request.spec.time_limit_s = 90;
  const std::string id = Begin(request);
  Measure();
  runner_.Advance(absl::Seconds(50));
  EndTrial();
  RunAll();
  Measure();  // the limit is the job's, not the trial's
  runner_.Advance(absl::Seconds(39));
  EXPECT_EQ(worker().kill_count, 0);
  runner_.Advance(absl::Seconds(1));
  EXPECT_EQ(worker().kill_count, 1);
  worker().Exit(0, 9);
  EXPECT_EQ(Reason(id), "TIME_LIMIT");
}

TEST_F(JobManagerTest, AWorkerOfAnotherBuildIsRefused) {
  const std::string id = Begin();
  worker().Say(worker_link::Hello{"build-2", 1});
  EXPECT_EQ(worker().kill_count, 1);
  worker().Exit(0, 9);
  EXPECT_EQ(Reason(id), "WORKER_MISMATCH");
  RunAll();
  const std::string mute = Begin();
  SayStage(worker_link::WorkerStage::kMeasuring);
  worker().Exit(0, 9);
  EXPECT_EQ(Reason(mute), "WORKER_MISMATCH") << "one that does not say its build either";
}

TEST_F(JobManagerTest, BytesThatAreNoMessageEndTheJob) {
  const std::string id = Begin();
  worker().events.on_protocol_error(absl::DataLossError("bad frame"));
  EXPECT_EQ(worker().kill_count, 1);
  worker().Exit(0, 9);
  EXPECT_EQ(Reason(id), "WORKER_FAILED");
}

TEST_F(JobManagerTest, AWorkerThatCannotBeStartedIsAFailedJob) {
  launcher_.error = absl::NotFoundError("no libreyolo-worker");
  const std::string id = Begin();
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_THAT(Get(id).error().message(), HasSubstr("no libreyolo-worker"));
  EXPECT_EQ(Holder("cpu"), "");
}

TEST_F(JobManagerTest, AStepThatFailsEndsTheJobAndTheNextOneRuns) {
  steps_.prepare_error = MakeError(reason::kWeightsNotFound, "not found");
  const std::string first = Begin();
  EXPECT_EQ(Reason(first), "WEIGHTS_NOT_FOUND");
  steps_.prepare_error = absl::OkStatus();
  steps_.commit_error = MakeError(reason::kStoreFailed, "disk full");
  const std::string second = Begin();
  Measure();
  EndTrial();
  RunAll();
  EXPECT_EQ(Reason(second), "STORE_FAILED");
  EXPECT_EQ(State(second), "FAILED");
  EXPECT_EQ(Holder("cpu"), "");
}

TEST_F(JobManagerTest, AJobThatCannotBeStoredIsRefused) {
  store_.error = MakeError(reason::kStoreFailed, "disk full");
  EXPECT_THAT(jobs_->Submit(RequestFor("cpu")), FailsWith(reason::kStoreFailed));
  EXPECT_EQ(jobs_->active_count(), 0);
  EXPECT_EQ(Holder("cpu"), "");
}

// ---- cancel

TEST_F(JobManagerTest, AQueuedJobIsCancelledAtOnce) {
  const std::string running = Begin();
  const std::string queued = Submit(RequestFor("cpu"));
  ASSERT_OK(jobs_->Cancel(queued));
  EXPECT_EQ(State(queued), "CANCELLED");
  EXPECT_EQ(Reason(queued), "CANCELLED");
  EXPECT_EQ(State(running), "STARTING");
  EXPECT_EQ(worker().cancel_count, 0);
}

TEST_F(JobManagerTest, CancelWhileWeightsAreLookedUpEndsTheLookUp) {
  const std::string id = Submit(RequestFor("cpu"));
  ASSERT_EQ(executor_.pending(), 1u);
  ASSERT_OK(jobs_->Cancel(id));
  EXPECT_EQ(State(id), "STARTING") << "the step has not ended";
  EXPECT_EQ(Holder("cpu"), id);
  RunAll();
  EXPECT_EQ(State(id), "CANCELLED");
  EXPECT_EQ(Holder("cpu"), "");
  EXPECT_THAT(launcher_.workers, IsEmpty());
}

class CancelWithWorkerTest : public JobManagerTest,
                             public ::testing::WithParamInterface<const char*> {
 protected:
  std::string Reach(const std::string& state) {
    const std::string id = Begin();
    if (state != "STARTING") SayHello();
    if (state == "WARMING_UP") SayStage(worker_link::WorkerStage::kWarmingUp);
    if (state == "MEASURING") SayStage(worker_link::WorkerStage::kMeasuring);
    EXPECT_EQ(State(id), state);
    return id;
  }
};

TEST_P(CancelWithWorkerTest, TheWorkerIsToldAndTheJobEndsWithIt) {
  const std::string state = GetParam();
  const std::string id = Reach(state);
  ASSERT_OK(jobs_->Cancel(id));
  ASSERT_OK(jobs_->Cancel(id));
  EXPECT_EQ(worker().cancel_count, 1) << "once";
  EXPECT_EQ(State(id), state);
  EXPECT_EQ(Holder("cpu"), id);
  worker().Say(worker_link::Failed{MakeError(reason::kCancelled, "cancelled")});
  worker().Exit(0);
  EXPECT_EQ(State(id), "CANCELLED");
  EXPECT_EQ(Holder("cpu"), "");
  EXPECT_EQ(worker().kill_count, 0);
  RunAll();
  EXPECT_EQ(steps_.calls.back(), "discard");
}

TEST_P(CancelWithWorkerTest, AWorkerThatDoesNotListenIsKilledAfterItsGrace) {
  const std::string id = Reach(GetParam());
  ASSERT_OK(jobs_->Cancel(id));
  runner_.Advance(limits_.cancel_grace - absl::Milliseconds(1));
  EXPECT_EQ(worker().kill_count, 0);
  runner_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(worker().kill_count, 1);
  EXPECT_EQ(Holder("cpu"), id) << "its processes are not gone";
  worker().Exit(0, 9);
  EXPECT_EQ(State(id), "CANCELLED") << "not a crash";
  EXPECT_EQ(Holder("cpu"), "");
}

TEST_P(CancelWithWorkerTest, AResultThatComesAfterTheCancelIsNotTaken) {
  const std::string id = Reach(GetParam());
  ASSERT_OK(jobs_->Cancel(id));
  EndTrial();
  RunAll();
  EXPECT_EQ(State(id), "CANCELLED");
  EXPECT_THAT(steps_.calls, Not(Contains("commit")));
}

INSTANTIATE_TEST_SUITE_P(States, CancelWithWorkerTest,
                         ::testing::Values("STARTING", "WARMING_UP", "MEASURING"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(JobManagerTest, CancelWhileAnalyzingWaitsForTheStep) {
  const std::string id = Begin(RequestFor("cpu", 2));
  Measure();
  EndTrial();
  ASSERT_OK(jobs_->Cancel(id));
  EXPECT_EQ(State(id), "ANALYZING");
  EXPECT_EQ(Holder("cpu"), id);
  RunAll();
  EXPECT_EQ(State(id), "CANCELLED");
  EXPECT_EQ(launcher_.workers.size(), 1u) << "no second trial";
  EXPECT_EQ(Holder("cpu"), "");
}

TEST_F(JobManagerTest, CancelIsRefusedOnceTheCommitBegan) {
  const std::string id = Begin();
  Measure();
  EndTrial();
  executor_.RunOne();  // the analysis; the commit is on its way
  runner_.RunPosted();
  ASSERT_EQ(executor_.pending(), 1u);
  ASSERT_OK(jobs_->Cancel(id));
  RunAll();
  EXPECT_EQ(State(id), "SUCCEEDED");
}

TEST_F(JobManagerTest, ATerminalJobStaysAsItIs) {
  const std::string id = Begin();
  Measure();
  EndTrial();
  RunAll();
  ASSERT_OK_AND_ASSIGN(const v1::Job job, jobs_->Cancel(id));
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(jobs_->Cancel("nobody"), FailsWith(reason::kJobNotFound));
}

// ---- requests

TEST_F(JobManagerTest, TheSameRequestIsTheSameJob) {
  JobManager::Request request = RequestFor("cpu");
  request.request_id = "r1";
  const std::string id = Submit(request);
  EXPECT_EQ(Submit(request), id);
  JobManager::Request other = RequestFor("cpu", 2);
  other.request_id = "r1";
  EXPECT_THAT(jobs_->Submit(other), FailsWith(reason::kRequestIdReused));
  request.principal = "somebody else";
  EXPECT_NE(Submit(request), id) << "an id belongs to its principal";
  request.principal = "owner";
  RunAll();
  Measure();
  EndTrial();
  RunAll();
  EXPECT_EQ(Submit(request), id) << "also after its end";
  jobs_->Drain([] {});
  EXPECT_EQ(Submit(request), id) << "also while draining";
}

TEST_F(JobManagerTest, AFullQueueRefuses) {
  limits_.max_queued = 2;
  Restart();
  Begin();
  Submit(RequestFor("cpu"));
  Submit(RequestFor("cpu"));
  EXPECT_THAT(jobs_->Submit(RequestFor("cpu")), FailsWith(reason::kQueueFull));
}

TEST_F(JobManagerTest, OnlyAnEndedJobCanBeDeleted) {
  const std::string id = Begin();
  EXPECT_THAT(jobs_->Delete(id), FailsWith(reason::kJobNotFinished));
  Measure();
  EndTrial();
  RunAll();
  ASSERT_OK(WriteFile(LogOf(id), "said"));
  ASSERT_OK(jobs_->Delete(id));
  EXPECT_THAT(jobs_->Get(id), FailsWith(reason::kJobNotFound));
  RunAll();
  EXPECT_NE(access(LogOf(id).c_str(), F_OK), 0);
  EXPECT_THAT(jobs_->Delete(id), FailsWith(reason::kJobNotFound));
}

TEST_F(JobManagerTest, TellsOfEachEndOnceItIsStored) {
  const std::string good = Begin();
  Measure();
  EndTrial();
  EXPECT_TRUE(ended_.empty());
  RunAll();
  const std::string cancelled = Begin();
  ASSERT_OK(jobs_->Cancel(cancelled));
  worker().Exit(0, 9);
  RunAll();
  using Ends = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(ended_, (Ends{{"owner", good}, {"owner", cancelled}}));
  EXPECT_EQ(StoredStates(good).back(), "SUCCEEDED");
}

TEST_F(JobManagerTest, ListsAreNewestFirstAndPaged) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(Submit(RequestFor("cpu")));
  std::string next;
  ASSERT_OK_AND_ASSIGN(const auto first, jobs_->List({"", 2, false}, &next));
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].id(), ids[2]);
  EXPECT_EQ(next, ids[1]);
  ASSERT_OK_AND_ASSIGN(const auto rest, jobs_->List({next, 2, false}, &next));
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].id(), ids[0]);
  EXPECT_EQ(next, "");
}

// ---- the queue

TEST_F(JobManagerTest, JobsOfADeviceRunInOrder) {
  const std::string first = Begin();
  const std::string second = Submit(RequestFor("cpu"));
  const std::string third = Submit(RequestFor("cpu"));
  EXPECT_EQ(Get(second).queue_position(), 0);
  EXPECT_THAT(Get(second).waiting_for(), HasSubstr("held by job " + first));
  EXPECT_EQ(Get(third).queue_position(), 1);
  EXPECT_THAT(Get(third).waiting_for(), HasSubstr("1 job is ahead"));
  worker().Exit(1);
  RunAll();
  EXPECT_EQ(State(second), "STARTING");
  EXPECT_EQ(State(third), "QUEUED");
  EXPECT_EQ(Get(third).queue_position(), 0);
  EXPECT_FALSE(Get(second).has_queue_position());
  EXPECT_THAT(Get(second).waiting_for(), IsEmpty());
  worker().Exit(1);
  RunAll();
  EXPECT_EQ(State(third), "STARTING");
}

TEST_F(JobManagerTest, TellsHowLongAJobWillWait) {
  Begin();
  const std::string second = Submit(RequestFor("cpu"));
  EXPECT_FALSE(Get(second).has_expected_wait()) << "nothing is known to go by";
  runner_.Advance(absl::Minutes(10));
  worker().Exit(1);
  RunAll();
  ASSERT_EQ(State(second), "STARTING");
  EXPECT_FALSE(Get(second).has_expected_wait());
  const std::string third = Submit(RequestFor("cpu"));
  const std::string fourth = Submit(RequestFor("cpu"));
  RunAll();
  // The one before took ten minutes, and the one that runs has just begun.
  EXPECT_EQ(Get(third).expected_wait().seconds(), 10 * 60);
  EXPECT_EQ(Get(fourth).expected_wait().seconds(), 20 * 60);
  EXPECT_THAT(Get(fourth).waiting_for(), HasSubstr("about 20 min"));
}

TEST_F(JobManagerTest, GpusWorkBesideEachOtherAndTheCpuAlone) {
  const std::string gpu0 = Begin(RequestFor("cuda:0"));
  const std::string gpu1 = Begin(RequestFor("cuda:1"));
  EXPECT_EQ(State(gpu0), "STARTING");
  EXPECT_EQ(State(gpu1), "STARTING");
  const std::string cpu = Begin(RequestFor("cpu"));
  EXPECT_EQ(State(cpu), "QUEUED") << "it shares the host with no other measuring job";
  const std::string late = Begin(RequestFor("cuda:1"));
  launcher_.workers[1]->Exit(1);
  RunAll();
  EXPECT_EQ(State(gpu1), "FAILED");
  EXPECT_EQ(State(late), "QUEUED") << "the one that waits for the whole host is not overtaken";
  launcher_.workers[0]->Exit(1);
  RunAll();
  EXPECT_EQ(State(cpu), "STARTING");
  EXPECT_EQ(State(late), "QUEUED");
  worker().Exit(1);
  RunAll();
  EXPECT_EQ(State(late), "STARTING");
}

TEST_F(JobManagerTest, ADeviceThatAnotherProcessHoldsIsAskedForAgain) {
  const UniqueFd other(open((locks_ / "libreyolo-cpu.lock").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const std::string id = Begin();
  EXPECT_EQ(State(id), "QUEUED");
  EXPECT_THAT(Get(id).waiting_for(), HasSubstr("another process on this host"));
  runner_.Advance(limits_.device_poll * 3);
  EXPECT_EQ(State(id), "QUEUED");
  ASSERT_EQ(flock(other.get(), LOCK_UN), 0);
  runner_.Advance(limits_.device_poll);
  EXPECT_EQ(State(id), "STARTING");
}

TEST_F(JobManagerTest, WithoutItsLockFolderAJobFails) {
  ASSERT_EQ(rmdir(locks_.path().c_str()), 0);
  const std::string id = Begin();
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_THAT(Get(id).error().message(), HasSubstr("lock file"));
}

// ---- watching

TEST_F(JobManagerTest, AWatcherGetsWhatItMissedAndWhatComes) {
  const std::string id = Begin();
  Warm();
  const int64_t known = store_.events[id][1].sequence();  // STARTING
  auto subscription = std::make_shared<JobSubscription>([] {});
  ASSERT_OK(jobs_->Watch(id, known, subscription));
  EXPECT_EQ(jobs_->watcher_count(), 1u);
  SayStage(worker_link::WorkerStage::kMeasuring);
  EndTrial();
  RunAll();
  std::vector<std::string> states;
  int64_t last = known;
  bool done = false;
  while (const auto event = subscription->Take(&done)) {
    states.push_back(v1::JobState_Name(event->job().state()).substr(10));
    EXPECT_GT(event->sequence(), last);
    last = event->sequence();
    EXPECT_FALSE(event->job().has_spec());
  }
  EXPECT_TRUE(done);
  EXPECT_THAT(states, ElementsAre("WARMING_UP", "MEASURING", "ANALYZING", "SUCCEEDED"));
  EXPECT_EQ(jobs_->watcher_count(), 0u);
  EXPECT_THAT(jobs_->Watch("nobody", 0, subscription), FailsWith(reason::kJobNotFound));
}

TEST_F(JobManagerTest, ASlowWatcherGetsTheNewestProgress) {
  const std::string id = Begin();
  Measure();
  auto subscription = std::make_shared<JobSubscription>([] {});
  ASSERT_OK(jobs_->Watch(id, Get(id).sequence(), subscription));
  for (int i = 1; i <= 100; ++i) worker().Say(worker_link::Progress{"measure", i, 100});
  bool done = false;
  int count = 0;
  int64_t newest = 0;
  while (const auto event = subscription->Take(&done)) {
    ++count;
    newest = event->job().progress().done();
  }
  EXPECT_EQ(count, 1);
  EXPECT_EQ(newest, 100);
  EXPECT_FALSE(done);
}

// ---- restart

TEST_F(JobManagerTest, ARestartRunsWhatWaitedAndFailsWhatRan) {
  const std::string ran = Begin();
  Measure();
  const std::string first = Submit(RequestFor("cpu"));
  const std::string second = Submit(RequestFor("cpu"));
  const int64_t sequence = Get(ran).sequence();
  Restart();
  EXPECT_EQ(State(ran), "FAILED");
  EXPECT_EQ(Reason(ran), "DAEMON_RESTARTED");
  EXPECT_THAT(Get(ran).error().message(), HasSubstr("MEASURING"));
  EXPECT_GT(Get(ran).sequence(), sequence);
  EXPECT_EQ(State(first), "STARTING");
  EXPECT_EQ(State(second), "QUEUED");
  EXPECT_THAT(steps_.calls, Contains("discard"));
}

TEST_F(JobManagerTest, ARestartEndsWhatWasCommittedAsASuccess) {
  const std::string id = Begin();
  Measure();
  Restart({{id, {"runs/profile/infer/profile.json", "trace.json", {}}}});
  EXPECT_EQ(State(id), "SUCCEEDED");
  EXPECT_EQ(Get(id).profile(), "runs/profile/infer/profile.json");
  EXPECT_EQ(StoredStates(id).back(), "SUCCEEDED");
  EXPECT_THAT(steps_.calls, Not(Contains("discard")));
}

TEST_F(JobManagerTest, AStoredSpecThatIsNoLongerValidFails) {
  Begin();
  const std::string id = Submit(RequestFor("cpu"));
  store_.records[id].job.mutable_spec()->mutable_infer()->set_runs(-1);
  Restart();
  EXPECT_EQ(State(id), "FAILED");
  EXPECT_EQ(Reason(id), "ARGUMENT_OUT_OF_RANGE");
}

// ---- the end

TEST_F(JobManagerTest, ADrainLetsTheRunningJobEndAndKeepsTheQueue) {
  const std::string running = Begin();
  const std::string queued = Submit(RequestFor("cpu"));
  bool drained = false;
  jobs_->Drain([&] { drained = true; });
  EXPECT_THAT(jobs_->Submit(RequestFor("cpu")), FailsWith(reason::kDraining));
  RunAll();
  EXPECT_FALSE(drained);
  Measure();
  EndTrial();
  RunAll();
  EXPECT_EQ(State(running), "SUCCEEDED");
  EXPECT_EQ(State(queued), "QUEUED");
  EXPECT_TRUE(drained);
  Restart();
  EXPECT_EQ(State(queued), "STARTING");
}

TEST_F(JobManagerTest, ADrainWithoutRunningJobsIsDoneAtOnce) {
  bool drained = false;
  jobs_->Drain([&] { drained = true; });
  RunAll();
  EXPECT_TRUE(drained);
}

TEST_F(JobManagerTest, TheSecondWordEndsTheRunningJobToo) {
  const std::string running = Begin();
  const std::string queued = Submit(RequestFor("cpu"));
  bool drained = false;
  jobs_->Drain([&] { drained = true; });
  jobs_->CancelRunning();
  EXPECT_EQ(worker().cancel_count, 1);
  worker().Exit(0);
  RunAll();
  EXPECT_EQ(State(running), "CANCELLED");
  EXPECT_EQ(State(queued), "QUEUED");
  EXPECT_TRUE(drained);
}

}  // namespace
}  // namespace libreyolo::daemon
