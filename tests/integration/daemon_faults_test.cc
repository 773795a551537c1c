// What goes wrong around a job: workers that die, lie or say nothing, and daemons that are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "tests/integration/daemon_fixture.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

using DaemonFaultTest = DaemonTest;

struct BadWorker {
  const char* name;
  const char* script;
  const char* reason;
  const char* message;  // a part of it
};

class BadWorkerTest : public DaemonTest, public ::testing::WithParamInterface<BadWorker> {};

TEST_P(BadWorkerTest, IsAFailedJobWithItsReasonAndTheNextJobRuns) {
  Script("bad", GetParam().script);
  StartDaemon();
  const v1::Job job = WaitForEnd(Submit("runs/bad").id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.error().reason(), GetParam().reason);
  EXPECT_THAT(job.error().message(), HasSubstr(GetParam().message));
  EXPECT_EQ(job.profile(), "");
  ExpectGoodJobRuns();
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(Workspace("runs/bad/.staging")); }));
  EXPECT_FALSE(std::filesystem::exists(Workspace("runs/bad/infer")));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, BadWorkerTest,
    ::testing::ValuesIn(std::vector<BadWorker>{
        {"EndsWithoutResult", "hello\nstage measuring\n", "WORKER_CRASHED",
         "the worker ended without a result"},
        {"Exits7", "hello\nstage measuring\nlog first\nlog the last words\nexit 7\n",
         "WORKER_CRASHED", "exit 7: the last words"},
        {"ExitsBeforeHello", "log no library\nexit 127\n", "WORKER_CRASHED",
         "exit 127: no library"},
        {"TraceIsEmpty", "hello\nstage measuring\ntrace empty\nfinish\n", "WORKER_FAILED",
         "trace is empty"},
        {"NoTrace", "hello\nstage measuring\nfinish\n", "WORKER_FAILED", "left no trace"},
        {"TraceIsNoTrace", "hello\nstage measuring\ntrace /etc/passwd\nfinish\n", "WORKER_FAILED",
         "the worker's trace"},
        {"MeasurementIsNone", "hello\nstage measuring\ntrace own\nfinish nonsense\n",
         "WORKER_FAILED", "the worker's measurement"},
        {"Segfaults", "hello\nstage warming_up\nlog about to crash\nkill 11\n", "WORKER_CRASHED",
         "signal 11 (Segmentation fault): about to crash"},
        {"DiesAfterFinish", "hello\nstage measuring\ntrace own\nfinish\nkill 6\n", "WORKER_CRASHED",
         "signal 6"},
        {"OtherBuild", "hello 0.0.1+else\nstage measuring\ntrace own\nfinish\n", "WORKER_MISMATCH",
         "the worker is of build 0.0.1+else"},
        {"NoHello", "stage measuring\ntrace own\nfinish\n", "WORKER_MISMATCH", "build"},
        {"SaysGarbage", "hello\nsay-garbage\nwait-file /nonexistent\n", "WORKER_FAILED",
         "no message"},
    }),
    [](const auto& info) { return info.param.name; });

TEST_F(DaemonFaultTest, AFolderThatCannotBeWrittenIsRefusedBeforeTheJobStarts) {
  StartDaemon();
  std::filesystem::create_directories(Workspace("runs"));
  ASSERT_OK(WriteFile(Workspace("runs/file"), "no folder"));
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec("runs/file/below");
  v1::Job job;
  const grpc::Status status = Create(request, &job);
  EXPECT_EQ(ReasonOf(status), "PROJECT_NOT_WRITABLE");
  EXPECT_THAT(status.error_message(), HasSubstr("runs/file"));
  ExpectGoodJobRuns();
}

TEST_F(DaemonFaultTest, AWorkerThatCannotBeStartedIsAFailedJob) {
  StartDaemon({"--worker", Path("absent")});
  const v1::Job job = WaitForEnd(Submit().id());
  EXPECT_EQ(job.error().reason(), "WORKER_FAILED");
  EXPECT_THAT(job.error().message(), HasSubstr("absent"));
  grpc::ClientContext context;
  v1::Capabilities capabilities;
  ASSERT_TRUE(server_->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_FALSE(capabilities.worker_available());
  EXPECT_THAT(capabilities.worker_unavailable_reason(), HasSubstr("absent"));
}

TEST_F(DaemonFaultTest, ASilentWorkerIsKilled) {
  Script("silent",
         absl::StrCat("hello\nobey no\nstage measuring\nwait-file ", Path("never"), "\n"));
  StartDaemon({"--heartbeat", "0.2"});
  const v1::Job job = WaitForEnd(Submit("runs/silent").id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.error().reason(), "WORKER_SILENT");
  ExpectGoodJobRuns();
}

TEST_F(DaemonFaultTest, AJobOverItsTimeLimitIsKilled) {
  Script("slow", absl::StrCat("hello\nobey no\nstage measuring\nwait-file ", Path("never"), "\n"));
  StartDaemon();
  v1::JobSpec spec = Spec("runs/slow");
  spec.mutable_time_limit()->set_seconds(1);
  const v1::Job job = WaitForEnd(Submit(spec).id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.error().reason(), "TIME_LIMIT");
  ExpectGoodJobRuns();
}

TEST_F(DaemonFaultTest, ASecondDaemonFailsAtOnceAndSaysWhatIsTaken) {
  StartDaemon();
  const std::string pid = absl::StrCat("(pid ", daemon_->pid(), ")");
  DaemonProcess same_address({"--listen", address(), "--store", Path("other")});
  EXPECT_EQ(same_address.Wait(), 75);
  EXPECT_THAT(same_address.Output(), HasSubstr(address()));
  EXPECT_THAT(same_address.Output(), HasSubstr(pid));
  DaemonProcess same_store({"--listen", "unix:" + Path("e.sock"), "--store", Path("store")});
  EXPECT_EQ(same_store.Wait(), 75);
  EXPECT_THAT(same_store.Output(), HasSubstr(Path("store")));
  EXPECT_THAT(same_store.Output(), HasSubstr(pid));
  ExpectGoodJobRuns();
}

TEST_F(DaemonFaultTest, ASocketOfADeadDaemonIsTakenOver) {
  StartDaemon();
  KillDaemon();
  ASSERT_TRUE(std::filesystem::exists(Path("d.sock")));
  StartDaemon();
  ExpectGoodJobRuns();
}

TEST_F(DaemonFaultTest, ATakenPortIsRefused) {
  DaemonProcess first(
      {"--listen", "127.0.0.1:0", "--store", Path("first"), "--lock-dir", Path("locks")});
  ASSERT_TRUE(Eventually([&] { return first.Output().find("127.0.0.1:") != std::string::npos; }));
  const std::string output = first.Output();
  const size_t begin = output.find("127.0.0.1:");
  const std::string taken =
      output.substr(begin, output.find_first_not_of("0123456789", begin + 10) - begin);
  ASSERT_THAT(taken, ::testing::Not(EndsWith(":0")));
  DaemonProcess second({"--listen", taken, "--store", Path("second")});
  EXPECT_EQ(second.Wait(), 75);
  EXPECT_THAT(second.Output(), HasSubstr(taken));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
}

TEST_F(DaemonFaultTest, PlainTcpIsRefusedOffLoopback) {
  for (const char* listen : {"0.0.0.0:7430", "[::]:7430", "192.0.2.1:7430", "nonsense", ":"}) {
    DaemonProcess daemon({"--listen", listen, "--store", Path("tcp")});
    EXPECT_EQ(daemon.Wait(), 2) << listen;
    EXPECT_FALSE(std::filesystem::exists(Path("tcp/index.sqlite"))) << listen;
  }
}

TEST_F(DaemonFaultTest, AKilledDaemonFailsWhatRanAndRunsWhatWaited) {
  Script("long", absl::StrCat("hello\nobey no\nstage measuring\nwait-file ", Path("never"), "\n"));
  StartDaemon();
  const v1::Job done = WaitForEnd(Submit("runs/good").id());
  const v1::Job running = Submit("runs/long");
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec("runs/queued");
  request.set_request_id("waits");
  v1::Job queued;
  ASSERT_TRUE(Create(request, &queued).ok());
  const v1::Job before = WaitFor(running.id(), v1::JOB_STATE_MEASURING);
  const std::string staging = Workspace("runs/long/.staging");
  ASSERT_TRUE(std::filesystem::exists(staging));
  KillDaemon();
  StartDaemon();

  const auto events = Watch(running.id(), before.sequence());
  ASSERT_FALSE(events.empty());
  EXPECT_GT(events.front().sequence(), before.sequence());
  EXPECT_EQ(events.back().job().state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(events.back().job().error().reason(), "DAEMON_RESTARTED");
  EXPECT_THAT(events.back().job().error().message(), HasSubstr("MEASURING"));
  EXPECT_FALSE(std::filesystem::exists(staging));
  v1::Job again;
  ASSERT_TRUE(Create(request, &again).ok());
  EXPECT_EQ(again.id(), queued.id());
  // The leftover worker, which takes no hint, held the device: it was killed.
  EXPECT_EQ(WaitForEnd(queued.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get(done.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(ReadFile(Workspace(done.profile())).ok());
}

TEST_F(DaemonFaultTest, ADaemonKilledInEveryStateLosesNoJob) {
  Script("starting", absl::StrCat("hello\nwait-file ", Path("never"), "\n"));
  Script("warming", absl::StrCat("hello\nstage warming_up\nwait-file ", Path("never"), "\n"));
  const std::pair<const char*, v1::JobState> cases[] = {{"runs/starting", v1::JOB_STATE_STARTING},
                                                        {"runs/warming", v1::JOB_STATE_WARMING_UP}};
  for (const auto& [project, state] : cases) {
    StartDaemon();
    const v1::Job job = Submit(project);
    WaitFor(job.id(), state);
    KillDaemon();
    StartDaemon();
    EXPECT_EQ(WaitForEnd(job.id()).error().reason(), "DAEMON_RESTARTED") << project;
    ExpectGoodJobRuns();
    KillDaemon();
  }
}

TEST_F(DaemonFaultTest, SigtermLetsTheRunningJobEndAndKeepsTheQueue) {
  Script("long", Until(Path("go"), "trace own\nfinish\n"));
  StartDaemon();
  const v1::Job running = Submit("runs/long");
  WaitFor(running.id(), v1::JOB_STATE_MEASURING);
  const v1::Job queued = Submit("runs/queued");
  daemon_->Signal(SIGTERM);
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  v1::Job refused;
  EXPECT_TRUE(Eventually([&] { return ReasonOf(Create(request, &refused)) == "DRAINING"; }));
  Touch("go");
  EXPECT_EQ(daemon_->Wait(), 0);
  daemon_.reset();
  StartDaemon();
  EXPECT_EQ(Get(running.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(WaitForEnd(queued.id()).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DaemonFaultTest, ASecondSigtermCancelsTheRunningJob) {
  Script("long", Until(Path("never"), ""));
  StartDaemon();
  const v1::Job running = Submit("runs/long");
  WaitFor(running.id(), v1::JOB_STATE_MEASURING);
  daemon_->Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return daemon_->Output().find("draining") != std::string::npos; }));
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(), 0);
  daemon_.reset();
  StartDaemon();
  EXPECT_EQ(Get(running.id()).state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(DaemonFaultTest, SigtermEndsUnderCalls) {
  StartDaemon();
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        grpc::ClientContext context;
        v1::ListJobsResponse jobs;
        if (!jobs_->ListJobs(&context, {}, &jobs).ok()) return;
      }
    });
  }
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(), 0);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  daemon_.reset();
}

}  // namespace
}  // namespace libreyolo::testing
