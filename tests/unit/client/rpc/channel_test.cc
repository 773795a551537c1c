// Which local daemon a command ends up with.
#include "client/rpc/channel.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "client/rpc/local_daemon.h"
#include "common/base/version.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/rpc/client_place.h"
#include "tests/unit/client/rpc/fake_server.h"

namespace libreyolo::client {
namespace {

using ::libreyolo::testing::FailsWith;

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto place = FindLocalDaemonPlace();
    ASSERT_OK(place);
    place_ = *place;
  }
  void TearDown() override {
    if (old_pid_ > 0) kill(old_pid_, SIGKILL);
    if (old_pid_ > 0) waitpid(old_pid_, nullptr, 0);
    // The shipped one, where a test started it.
    const auto about = Ask();
    if (about.ok() && about->local()) {
      EXPECT_OK(StopLocalDaemon(place_, about->pid(), 20));
    }
  }
  // What the holder of the place's lock writes.
  void WriteLock(const std::string& text) {
    ASSERT_OK(WriteFile(place_.socket_path + ".lock", text));
  }
  absl::StatusOr<v1::Capabilities> Ask() {
    const auto stub = v1::ServerService::NewStub(MakeChannel("unix:" + place_.socket_path));
    grpc::ClientContext context;
    v1::Capabilities about;
    const auto status = stub->GetCapabilities(&context, v1::GetCapabilitiesRequest(), &about);
    if (!status.ok()) return rpc::FromGrpcStatus(status);
    return about;
  }
  // A daemon of another build in a process of its own, which ends on SIGTERM. Before any other use
  // of gRPC here: it does not survive a fork.
  void StartOldDaemon() {
    old_pid_ = fork();
    if (old_pid_ == 0) {
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGTERM);
      sigprocmask(SIG_BLOCK, &set, nullptr);
      FakeServer server(place_.socket_path);
      server.about.about.set_build_id("0.0.1+older");
      server.about.about.set_pid(getpid());
      int signal = 0;
      sigwait(&set, &signal);
      unlink(place_.socket_path.c_str());
      _exit(0);
    }
    while (!IsListening(place_.socket_path)) sched_yield();
  }
  void InstallShippedDaemon() {
    std::filesystem::create_symlink(absl::StrCat(LIBREYOLO_BIN_DIR, "/libreyolod"),
                                    client_.Path("bin/libreyolod"));
  }

  ClientPlace client_;
  LocalDaemonPlace place_;
  pid_t old_pid_ = 0;
};

// The shipped daemon, also in what it writes into its lock. First, for it forks.
TEST_F(ChannelTest, AReaderReplacesAnIdleDaemonOfAnotherBuild) {
  StartOldDaemon();
  WriteLock(absl::StrCat(old_pid_, "\n0.0.1+older\n"));
  InstallShippedDaemon();
  ASSERT_OK_AND_ASSIGN(const Server server, Connect({}, NeedDaemon::kAny));
  EXPECT_TRUE(server.local);
  ASSERT_OK_AND_ASSIGN(const v1::Capabilities about, Ask());
  EXPECT_EQ(about.build_id(), BuildId());
  EXPECT_NE(about.pid(), old_pid_);
  EXPECT_EQ(BuildOfLocalDaemon(place_), BuildId());
}

TEST_F(ChannelTest, AReaderAsksNothingOfADaemonOfItsBuild) {
  FakeServer daemon(place_.socket_path);
  WriteLock(absl::StrCat("4711\n", BuildId(), "\n"));
  ASSERT_OK_AND_ASSIGN(const Server server, Connect({}, NeedDaemon::kAny));
  EXPECT_TRUE(server.local);
  EXPECT_EQ(daemon.about.asked_count, 0);
}

TEST_F(ChannelTest, AReaderUsesABusyDaemonOfAnotherBuildAndAMeasurementDoesNot) {
  FakeServer daemon(place_.socket_path);
  daemon.about.about.set_build_id("0.0.1+older");
  daemon.about.about.set_active_jobs(1);
  daemon.about.about.set_pid(getpid());  // ending it would end the test
  for (const char* lock : {"4711\n0.0.1+older\n", "4711\n", ""}) {
    WriteLock(lock);
    EXPECT_OK(Connect({}, NeedDaemon::kAny)) << lock;
    EXPECT_THAT(Connect({}, NeedDaemon::kSameBuild), FailsWith(reason::kBusy)) << lock;
  }
  EXPECT_EQ(daemon.about.asked_count, 6);
}

TEST_F(ChannelTest, AReaderDoesNotUseABusyDaemonOfAnotherApi) {
  FakeServer daemon(place_.socket_path);
  daemon.about.about.set_build_id("9.0.0+newer");
  daemon.about.about.set_api_version("v2");
  daemon.about.about.set_active_jobs(1);
  WriteLock("4711\n9.0.0+newer\n");
  const auto server = Connect({}, NeedDaemon::kAny);
  EXPECT_THAT(server, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(server.status().message()), ::testing::HasSubstr("speaks API v2"));
}

}  // namespace
}  // namespace libreyolo::client
