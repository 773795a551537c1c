#include "client/rpc/local_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "client/rpc/channel.h"
#include "common/base/sha256.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/rpc/client_place.h"

namespace libreyolo::client {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Stands in for libreyolod: listens where it is told, writes down how it was started, ends on
// SIGTERM.
constexpr char kListener[] = R"(import os, signal, socket, sys
args = dict(zip(sys.argv[2::2], sys.argv[3::2]))
assert sys.argv[1] == "--local", sys.argv
with open(args["--state"] + "/started", "w") as out:
    fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd))
    print(args["--workspace"], os.getsid(0) == os.getpid(), os.getcwd(), max(fds) <= 4, file=out)
listener = socket.socket(socket.AF_UNIX)
listener.bind(args["--listen"][5:])
signal.signal(signal.SIGTERM, lambda *_: (os.unlink(args["--listen"][5:]), os._exit(0)))
with open(args["--state"] + "/pid.tmp", "w") as out:
    out.write(str(os.getpid()))
os.rename(args["--state"] + "/pid.tmp", args["--state"] + "/pid")
listener.listen()
while True:
    listener.accept()
)";

class LocalDaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_.AddFile("listener.py", kListener);
    const auto place = FindLocalDaemonPlace();
    ASSERT_OK(place);
    place_ = *place;
  }
  void TearDown() override {
    if (const int64_t pid = DaemonPid(); pid > 1) {
      EXPECT_OK(StopLocalDaemon(place_, pid, 10));
    }
  }
  // $5 is the state folder; LISTEN is a daemon that takes this process's place.
  void DaemonIs(const std::string& shell) {
    client_.AddProgram(
        "libreyolod",
        absl::StrCat("#!/bin/sh\n", absl::StrReplaceAll(shell, {{"LISTEN", ListenWords()}}), "\n"));
  }
  std::string ListenWords() const {
    return absl::StrCat("python3 -S -E ", client_.Path("listener.py"), " \"$@\"");
  }
  int64_t DaemonPid() const {
    int64_t pid = 0;
    const auto text = ReadFile(place_.state_dir + "/pid");
    return text.ok() && absl::SimpleAtoi(*text, &pid) ? pid : 0;
  }

  ClientPlace client_;
  LocalDaemonPlace place_;
};

TEST_F(LocalDaemonTest, ThePlaceFollowsFromTheCurrentFolder) {
  const std::string hash = Sha256Hex(client_.Path("work")).substr(0, 16);
  EXPECT_EQ(place_.workspace, client_.Path("work"));
  EXPECT_EQ(place_.socket_path, client_.Path("run/libreyolo/" + hash + ".sock"));
  EXPECT_EQ(place_.state_dir, client_.Path("state/libreyolo/" + hash));
  EXPECT_EQ(std::filesystem::status(client_.Path("run/libreyolo")).permissions(),
            std::filesystem::perms::owner_all);
}

TEST_F(LocalDaemonTest, ALinkToTheFolderLeadsToTheSameDaemon) {
  std::filesystem::create_directory_symlink(client_.Path("work"), client_.Path("link"));
  std::filesystem::current_path(client_.Path("link"));
  ASSERT_OK_AND_ASSIGN(const LocalDaemonPlace place, FindLocalDaemonPlace());
  EXPECT_EQ(place.socket_path, place_.socket_path);
}

TEST_F(LocalDaemonTest, WithoutARuntimeFolderTheSocketIsInTheTempFolder) {
  for (const char* runtime : {"", "relative", "/nonexistent/run"}) {
    client_.Set("XDG_RUNTIME_DIR", runtime);
    ASSERT_OK_AND_ASSIGN(const LocalDaemonPlace place, FindLocalDaemonPlace());
    EXPECT_THAT(place.socket_path,
                HasSubstr(client_.Path(absl::StrCat("libreyolo-", geteuid(), "/"))));
  }
}

TEST_F(LocalDaemonTest, StateIsBelowHomeByDefault) {
  client_.Unset("XDG_STATE_HOME");
  ASSERT_OK_AND_ASSIGN(const LocalDaemonPlace place, FindLocalDaemonPlace());
  EXPECT_THAT(place.state_dir, HasSubstr(client_.Path("home/.local/state/libreyolo/")));
}

TEST_F(LocalDaemonTest, SaysThatHomeIsMissing) {
  client_.Unset("XDG_STATE_HOME");
  client_.Unset("HOME");
  const auto place = FindLocalDaemonPlace();
  EXPECT_THAT(place, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(place.status().message()), HasSubstr("HOME is not set"));
}

TEST_F(LocalDaemonTest, RefusesASocketFolderThatOthersCanEnter) {
  ASSERT_EQ(chmod(client_.Path("run/libreyolo").c_str(), 0750), 0);
  const auto place = FindLocalDaemonPlace();
  EXPECT_THAT(place, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(place.status().message()), HasSubstr("open to other users"));
}

TEST_F(LocalDaemonTest, RefusesASocketFolderThatIsALink) {
  std::filesystem::remove(client_.Path("run/libreyolo"));
  std::filesystem::create_directory_symlink(client_.Path("bin"), client_.Path("run/libreyolo"));
  const auto place = FindLocalDaemonPlace();
  EXPECT_THAT(place, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(place.status().message()), HasSubstr("symbolic link"));
}

TEST_F(LocalDaemonTest, RefusesASocketFolderOfSomebodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(chown(client_.Path("run/libreyolo").c_str(), 65534, 65534), 0);
  const auto place = FindLocalDaemonPlace();
  EXPECT_THAT(place, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(place.status().message()), HasSubstr("another user"));
}

TEST_F(LocalDaemonTest, RefusesASocketPathThatIsTooLong) {
  const std::string folder = client_.Path(std::string(90, 'x'));
  std::filesystem::create_directory(folder);
  client_.Set("XDG_RUNTIME_DIR", folder);
  const auto place = FindLocalDaemonPlace();
  EXPECT_THAT(place, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(place.status().message()), HasSubstr("107 are possible"));
}

TEST_F(LocalDaemonTest, StartsADetachedDaemonAndStopsIt) {
  const int inherited = open("/dev/null", O_RDONLY);  // without close-on-exec
  DaemonIs("exec LISTEN");
  EXPECT_FALSE(IsListening(place_.socket_path));
  ASSERT_OK(StartLocalDaemon(place_));
  close(inherited);
  EXPECT_TRUE(IsListening(place_.socket_path));
  // Its workspace; leads its own session; stands in /; has no descriptor of ours.
  EXPECT_EQ(ReadFile(place_.state_dir + "/started").value_or(""),
            client_.Path("work") + " True / True\n");
  const int64_t pid = DaemonPid();
  ASSERT_OK(StopLocalDaemon(place_, pid, 10));
  EXPECT_FALSE(IsListening(place_.socket_path));
  EXPECT_EQ(kill(static_cast<pid_t>(pid), 0), -1);
  std::filesystem::remove(place_.state_dir + "/pid");
}

TEST_F(LocalDaemonTest, SaysWithWhatADaemonFailed) {
  std::filesystem::create_directories(place_.state_dir);
  ASSERT_OK(WriteFile(place_.log_path(), "a line of yesterday\n"));
  DaemonIs("echo 'index: disk full' >> \"$5/daemon.log\"; echo 'on stderr' >&2; exit 3");
  const absl::Status status = StartLocalDaemon(place_);
  EXPECT_THAT(status, FailsWith(reason::kServerUnreachable));
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("exit code 3"));
  EXPECT_THAT(message, HasSubstr("index: disk full"));
  EXPECT_THAT(message, HasSubstr("on stderr"));
  EXPECT_THAT(message, Not(HasSubstr("yesterday")));
}

TEST_F(LocalDaemonTest, SaysThatASignalEndedTheDaemon) {
  DaemonIs("kill -SEGV $$");
  EXPECT_THAT(std::string(StartLocalDaemon(place_).message()), HasSubstr("signal 11"));
}

TEST_F(LocalDaemonTest, WaitsForTheDaemonThatWonTheStart) {
  DaemonIs("LISTEN & exit 75");
  // The winner is not this process's child, so its session is not checked here.
  ASSERT_OK(StartLocalDaemon(place_));
  EXPECT_TRUE(IsListening(place_.socket_path));
}

TEST_F(LocalDaemonTest, StartsAgainWhenTheOtherOneWasAboutToEnd) {
  DaemonIs("mkdir \"$5/first\" 2>&- && exit 75; exec LISTEN");
  ASSERT_OK(StartLocalDaemon(place_));
  EXPECT_TRUE(IsListening(place_.socket_path));
}

TEST_F(LocalDaemonTest, SaysWhereItLookedForTheDaemon) {
  client_.Set("PATH", "/nonexistent::relative");
  const absl::Status status = StartLocalDaemon(place_);
  EXPECT_THAT(status, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no libreyolod was found"));
}

TEST_F(LocalDaemonTest, NeverSignalsAProcessGroup) {
  for (const int64_t pid : {int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{1} << 32}) {
    EXPECT_THAT(StopLocalDaemon(place_, pid, 1), FailsWith(reason::kServerUnreachable));
  }
}

TEST_F(LocalDaemonTest, ConnectStartsTheDaemonForAReader) {
  DaemonIs("exec LISTEN");
  ASSERT_OK_AND_ASSIGN(const Server server, Connect(ServerOptions(), NeedDaemon::kAny));
  EXPECT_TRUE(server.local);
  EXPECT_EQ(server.address, "unix:" + place_.socket_path);
  EXPECT_EQ(server.state_dir, place_.state_dir);
  EXPECT_TRUE(IsListening(place_.socket_path));
}

}  // namespace
}  // namespace libreyolo::client
