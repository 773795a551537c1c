#include "tests/integration/daemon_fixture.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/unique_fd.h"
#include "common/rpc/status_convert.h"

namespace libreyolo::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kPatienceS = 20;

// A context with a deadline, so that a hung daemon fails a test and does not hang it.
void Bound(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(kPatienceS));
  context.set_wait_for_ready(true);
}

}  // namespace

bool Eventually(const std::function<bool()>& holds) {
  const int64_t end = MonotonicNs() + int64_t{kPatienceS} * 1'000'000'000;
  while (!holds()) {
    if (MonotonicNs() > end) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

bool ProcessLives(int pid) {
  const auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
  return stat.ok() && !absl::StrContains(*stat, ") Z ");
}

std::string ReasonOf(const grpc::Status& status) {
  return status.ok() ? "" : GetErrorDetail(rpc::FromGrpcStatus(status)).reason;
}

DaemonProcess::DaemonProcess(const std::vector<std::string>& arguments) {
  char name[] = "/tmp/lyd-log-XXXXXX";
  const UniqueFd output(mkostemp(name, O_CLOEXEC));
  output_path_ = name;
  std::vector<std::string> words = {LIBREYOLO_BIN_DIR "/libreyolod"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  LY_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(output.get(), 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  unlink(output_path_.c_str());
}

void DaemonProcess::Signal(int signal) const { kill(pid_, signal); }

int DaemonProcess::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string DaemonProcess::Output() const { return ReadFile(output_path_).value_or(""); }

DaemonTest::DaemonTest() {
  char name[] = "/tmp/lyd-XXXXXX";
  LY_CHECK(mkdtemp(name) != nullptr);
  folder_ = name;
  fs::create_directories(Path("scripts"));
  fs::create_directories(Path("locks"));
  LY_CHECK(WriteFile(Path("worker"),
                     absl::StrCat("#!/bin/sh\nexec " LIBREYOLO_TEST_BIN_DIR "/scripted_worker ",
                                  Path("scripts"), "\n"))
               .ok());
  fs::permissions(Path("worker"), fs::perms::owner_all);
  Script("default", kGoodScript);
}

DaemonTest::~DaemonTest() {
  if (HasFailure() && daemon_ != nullptr) std::fputs(daemon_->Output().c_str(), stderr);
  daemon_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<std::string> DaemonTest::Arguments() const {
  return {"--listen",          address(),       "--store",
          Path("store"),       "--worker",      Path("worker"),
          "--lock-dir",        Path("locks"),   "--cache",
          Path("cache"),       "--hub",         "http://127.0.0.1:9",
          "--worker-children", "--worker-read", LIBREYOLO_TEST_BIN_DIR "/scripted_worker",
          "--worker-read",     Path("scripts")};
}

void DaemonTest::StartDaemon(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), more.begin(), more.end());
  daemon_ = std::make_unique<DaemonProcess>(arguments);
  // The daemon before it may have left a socket file, so the file alone says nothing.
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(daemon_->Output(), "listening"); }))
      << daemon_->Output();
  channel_ = grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  jobs_ = v1::JobService::NewStub(channel_);
  profiles_ = v1::ProfileService::NewStub(channel_);
  server_ = v1::ServerService::NewStub(channel_);
  devices_ = v1::DeviceService::NewStub(channel_);
}

void DaemonTest::KillDaemon() {
  daemon_->Signal(SIGKILL);
  daemon_->Wait();
  daemon_.reset();
}

void DaemonTest::Script(const std::string& name, const std::string& steps) const {
  LY_CHECK(WriteFileAtomically(Path("scripts/" + name), steps).ok());
}

std::string DaemonTest::Until(const std::string& path, const std::string& then) {
  return absl::StrCat("hello\nstage measuring\nwait-file ", path, "\n", then);
}

void DaemonTest::Touch(const std::string& name) const { LY_CHECK(WriteFile(Path(name), "").ok()); }

v1::JobSpec DaemonTest::Spec(const std::string& project) const {
  v1::JobSpec spec;
  spec.set_device("cpu");
  spec.set_project(project);
  spec.mutable_weights()->set_random(true);
  spec.mutable_infer()->set_runs(5);
  return spec;
}

grpc::Status DaemonTest::Create(const v1::CreateJobRequest& request, v1::Job* job) {
  grpc::ClientContext context;
  Bound(context);
  return jobs_->CreateJob(&context, request, job);
}

v1::Job DaemonTest::Submit(const v1::JobSpec& spec) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  v1::Job job;
  const grpc::Status status = Create(request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

v1::Job DaemonTest::Get(const std::string& id) {
  grpc::ClientContext context;
  Bound(context);
  v1::GetJobRequest request;
  request.set_id(id);
  v1::Job job;
  const grpc::Status status = jobs_->GetJob(&context, request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

v1::Job DaemonTest::Cancel(const std::string& id) {
  grpc::ClientContext context;
  Bound(context);
  v1::CancelJobRequest request;
  request.set_id(id);
  v1::Job job;
  const grpc::Status status = jobs_->CancelJob(&context, request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

std::vector<v1::JobEvent> DaemonTest::Watch(const std::string& id, int64_t after,
                                            const std::function<bool(const v1::Job&)>& enough) {
  grpc::ClientContext context;
  Bound(context);
  v1::WatchJobRequest request;
  request.set_id(id);
  request.set_after_sequence(after);
  const auto stream = jobs_->WatchJob(&context, request);
  std::vector<v1::JobEvent> events;
  v1::JobEvent event;
  while (stream->Read(&event)) {
    events.push_back(event);
    if (enough && enough(event.job())) context.TryCancel();
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED)
      << status.error_message();
  return events;
}

v1::Job DaemonTest::WaitFor(const std::string& id, v1::JobState state) {
  const auto events = Watch(id, 0, [&](const v1::Job& job) { return job.state() == state; });
  for (const v1::JobEvent& event : events) {
    if (event.job().state() == state) return event.job();
  }
  ADD_FAILURE() << "the job never was " << v1::JobState_Name(state)
                << "; last: " << (events.empty() ? "" : events.back().job().ShortDebugString());
  return {};
}

v1::Job DaemonTest::WaitForEnd(const std::string& id) {
  const auto events = Watch(id, 0);
  EXPECT_FALSE(events.empty());
  return events.empty() ? v1::Job() : events.back().job();
}

v1::Job DaemonTest::ExpectGoodJobRuns(const std::string& project) {
  const v1::Job end = WaitForEnd(Submit(project).id());
  EXPECT_EQ(end.state(), v1::JOB_STATE_SUCCEEDED) << end.ShortDebugString();
  return end;
}

}  // namespace libreyolo::testing
