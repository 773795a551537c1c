#include "client/rpc/local_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/rpc/server_choice.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace libreyolo::client {
namespace {

constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kHashDigits = 16;
constexpr absl::Duration kStartTimeout = absl::Seconds(10);
// A start takes some 20 ms, so the first looks are close together.
constexpr absl::Duration kFirstPause = absl::Milliseconds(2);
constexpr absl::Duration kLaterPause = absl::Milliseconds(5);
constexpr absl::Duration kFirstPausesEnd = absl::Milliseconds(100);
// After another daemon held the place: it may have been one that was about to end.
constexpr absl::Duration kStartAgainAfter = absl::Milliseconds(250);
// What libreyolod exits with when another one has its place.
constexpr int kExitAlreadyRunning = 75;
constexpr int64_t kLogTailBytes = 2048;
constexpr size_t kLogTailLines = 8;
constexpr int64_t kMaxLockBytes = 1024;

absl::Status Unreachable(absl::string_view message, std::vector<std::string> hints = {}) {
  return MakeError(reason::kServerUnreachable, message, std::move(hints));
}

// The variable's value when it is an absolute path: the XDG rules say to ignore others.
std::string AbsoluteFromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

bool IsOwnFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// A folder that only this user can look into. Anybody who can write there could answer in the
// daemon's name.
absl::Status MakePrivateFolder(const std::string& path) {
  const auto refuse = [&](absl::string_view why) {
    return Unreachable(
        absl::StrCat("the folder of the local daemon's socket, ", path, ", ", why),
        {absl::StrCat("remove it, or make it yours alone with chmod 700 ", path),
         "set XDG_RUNTIME_DIR to a folder of your own", "name a server with --server ADDRESS"});
  };
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return refuse(absl::StrCat("cannot be made: ", strerror(errno)));
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return refuse(absl::StrCat("is lost: ", strerror(errno)));
  if (S_ISLNK(info.st_mode)) return refuse("is a symbolic link");
  if (!S_ISDIR(info.st_mode)) return refuse("is no folder");
  if (info.st_uid != geteuid()) return refuse("belongs to another user");
  if ((info.st_mode & 077) != 0) return refuse("is open to other users");
  return absl::OkStatus();
}

// XDG_RUNTIME_DIR counts when it is ours: after `su` it often still names the folder of the user
// before.
absl::StatusOr<std::string> FindSocketFolder() {
  std::string folder = AbsoluteFromEnvironment("XDG_RUNTIME_DIR");
  if (!folder.empty() && IsOwnFolder(folder)) {
    folder += "/libreyolo";
  } else {
    const std::string temp = AbsoluteFromEnvironment("TMPDIR");
    folder = absl::StrCat(temp.empty() ? "/tmp" : temp, "/libreyolo-", geteuid());
  }
  LY_RETURN_IF_ERROR(MakePrivateFolder(folder));
  return folder;
}

absl::StatusOr<std::string> FindStateFolder() {
  std::string folder = AbsoluteFromEnvironment("XDG_STATE_HOME");
  if (folder.empty()) {
    const std::string home = AbsoluteFromEnvironment("HOME");
    if (home.empty()) {
      return Unreachable("there is no place for the local daemon's state: HOME is not set",
                         {"set HOME or XDG_STATE_HOME", "name a server with --server ADDRESS"});
    }
    folder = home + "/.local/state";
  }
  folder += "/libreyolo";
  if (const absl::Status made = MakeDirectories(folder, 0700); !made.ok()) {
    return Unreachable(
        absl::StrCat("there is no place for the local daemon's state: ", made.message()),
        {"set XDG_STATE_HOME to a folder that can be written"});
  }
  return folder;
}

std::string FolderOfThisExecutable() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0) return "";
  const std::string whole(path, static_cast<size_t>(size));
  return whole.substr(0, whole.rfind('/'));
}

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

absl::StatusOr<std::string> FindDaemonExecutable() {
  const std::string beside = FolderOfThisExecutable();
  std::vector<std::string> folders = {beside};
  const char* path = std::getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    // Relative ones would depend on the folder that the user happens to be in.
    if (absl::StartsWith(folder, "/")) folders.emplace_back(folder);
  }
  for (const std::string& folder : folders) {
    std::string candidate = folder + "/libreyolod";
    if (IsExecutableFile(candidate)) return candidate;
  }
  return Unreachable(
      absl::StrCat("no libreyolod was found beside this program (", beside, ") or in PATH"),
      {"install it, or put its folder into PATH", "name a server with --server ADDRESS"});
}

// The user's settings for local daemons; empty: there are none.
std::string SettingsFile() {
  const absl::StatusOr<std::string> folder = ConfigFolder();
  if (!folder.ok()) return "";
  const std::string path = *folder + "/libreyolod.textproto";
  return access(path.c_str(), F_OK) == 0 ? path : "";
}

// A session of its own, so that the terminal's end and Ctrl-C do not reach it; no descriptor of
// ours stays open in it. What it writes to stderr before it has its log goes to the log's end.
absl::StatusOr<pid_t> SpawnDaemon(const std::string& executable, const LocalDaemonPlace& place) {
  const std::string listen = "unix:" + place.socket_path;
  const std::string log = place.log_path();
  std::vector<const char*> argv = {
      executable.c_str(),      "--local",  "--workspace", place.workspace.c_str(), "--state",
      place.state_dir.c_str(), "--listen", listen.c_str()};
  const std::string settings = SettingsFile();
  if (!settings.empty()) argv.insert(argv.end(), {"--config", settings.c_str()});
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  posix_spawn_file_actions_addchdir_np(&files, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int number : {SIGINT, SIGTERM, SIGPIPE, SIGQUIT}) sigaddset(&defaults, number);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, executable.c_str(), &files, &attributes,
                                const_cast<char* const*>(argv.data()), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return Unreachable(absl::StrCat("cannot start ", executable, ": ", strerror(error)));
  }
  return pid;
}

int64_t FileSize(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

// What this start has written: the log's end from `from_byte` on, or from its start when the log
// was rotated.
std::string NewLogLines(const std::string& path, int64_t from_byte) {
  const int64_t size = FileSize(path);
  const int64_t fresh = size >= from_byte ? size - from_byte : size;
  if (fresh == 0) return "";
  std::vector<std::string> lines =
      absl::StrSplit(TailOfFile(path, std::min(fresh, kLogTailBytes)), '\n', absl::SkipEmpty());
  if (lines.size() > kLogTailLines) lines.erase(lines.begin(), lines.end() - kLogTailLines);
  return absl::StrJoin(lines, " | ");  // errors are one line
}

absl::Status StartFailed(const std::string& what, const LocalDaemonPlace& place,
                         int64_t log_size_before) {
  const std::string lines = NewLogLines(place.log_path(), log_size_before);
  return Unreachable(
      lines.empty() ? what : absl::StrCat(what, "; its log ends with: ", lines),
      {absl::StrCat("its log is ", place.log_path()), "name a server with --server ADDRESS"});
}

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) return absl::StrCat("was ended by signal ", WTERMSIG(wait_status));
  return absl::StrCat("ended with exit code ", WEXITSTATUS(wait_status));
}

// One that has ended and waits for its parent to notice counts as gone: the parent may be another
// client.
bool IsAlive(pid_t pid) {
  waitpid(pid, nullptr, WNOHANG);  // it may be our own child
  if (kill(pid, 0) != 0) return errno == EPERM;
  const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
  if (!stat.ok()) return false;
  // "pid (name) state ...", where the name may hold anything.
  const size_t name_end = stat->rfind(')');
  const char state = name_end + 2 < stat->size() ? (*stat)[name_end + 2] : '?';
  return state != 'Z' && state != 'X';
}

}  // namespace

absl::StatusOr<LocalDaemonPlace> FindLocalDaemonPlace() {
  LocalDaemonPlace place;
  const std::unique_ptr<char, void (*)(void*)> workspace(realpath(".", nullptr), free);
  if (workspace == nullptr) {
    return Unreachable(absl::StrCat("the current folder cannot be told: ", strerror(errno)),
                       {"change to a folder that exists", "name a server with --server ADDRESS"});
  }
  place.workspace = workspace.get();
  const std::string hash = Sha256Hex(place.workspace).substr(0, kHashDigits);
  LY_ASSIGN_OR_RETURN(const std::string socket_folder, FindSocketFolder());
  place.socket_path = absl::StrCat(socket_folder, "/", hash, ".sock");
  if (place.socket_path.size() > kMaxSocketPath) {
    return Unreachable(
        absl::StrCat("the local daemon's socket ", place.socket_path, " would have a path of ",
                     place.socket_path.size(), " bytes; ", kMaxSocketPath, " are possible"),
        {"set XDG_RUNTIME_DIR or TMPDIR to a folder with a shorter path"});
  }
  LY_ASSIGN_OR_RETURN(const std::string state_folder, FindStateFolder());
  place.state_dir = absl::StrCat(state_folder, "/", hash);
  return place;
}

bool IsListening(const std::string& socket_path) {
  sockaddr_un name{};
  if (socket_path.size() > kMaxSocketPath) return false;
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, socket_path.data(), socket_path.size());
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) return true;
  return errno == EAGAIN;  // its queue of new connections is full
}

std::string BuildOfLocalDaemon(const LocalDaemonPlace& place) {
  // "PID\nBUILD\n", written by whoever holds the lock.
  const std::string text = ReadFile(place.socket_path + ".lock", kMaxLockBytes).value_or("");
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  return lines.size() == 3 ? lines[1] : "";
}

absl::Status StartLocalDaemon(const LocalDaemonPlace& place) {
  LY_ASSIGN_OR_RETURN(const std::string executable, FindDaemonExecutable());
  if (const absl::Status made = MakeDirectories(place.state_dir, 0700); !made.ok()) {
    return Unreachable(absl::StrCat("the local daemon has no place: ", made.message()));
  }
  const int64_t log_size_before = FileSize(place.log_path());
  const SystemClock clock;
  const absl::Duration began = clock.Monotonic();
  absl::Duration again_at = absl::InfiniteDuration();
  LY_ASSIGN_OR_RETURN(pid_t pid, SpawnDaemon(executable, place));
  // The child stays ours until it listens, so that its exit code can be told. Afterwards it is
  // handed to init when this program ends.
  for (;;) {
    if (IsListening(place.socket_path)) return absl::OkStatus();
    const absl::Duration passed = clock.Monotonic() - began;
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, WNOHANG) == pid) {
      pid = 0;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != kExitAlreadyRunning) {
        return StartFailed(absl::StrCat("the local daemon ", executable, " ", DescribeEnd(status)),
                           place, log_size_before);
      }
      again_at = passed + kStartAgainAfter;
    }
    if (pid == 0 && passed >= again_at) {
      again_at = absl::InfiniteDuration();
      LY_ASSIGN_OR_RETURN(pid, SpawnDaemon(executable, place));
    }
    if (passed >= kStartTimeout) {
      return StartFailed(absl::StrCat("the local daemon ", executable, " does not listen after ",
                                      absl::FormatDuration(kStartTimeout)),
                         place, log_size_before);
    }
    absl::SleepFor(passed < kFirstPausesEnd ? kFirstPause : kLaterPause);
  }
}

absl::Status StopLocalDaemon(const LocalDaemonPlace& place, int64_t pid, int timeout_s) {
  // 0 and negative numbers would reach whole process groups.
  if (pid <= 1 || pid != static_cast<pid_t>(pid)) {
    return Unreachable(absl::StrCat("the local daemon gave no usable process id: ", pid));
  }
  const pid_t target = static_cast<pid_t>(pid);
  if (kill(target, SIGTERM) != 0 && errno != ESRCH) {
    return Unreachable(
        absl::StrCat("the local daemon (pid ", pid, ") cannot be ended: ", strerror(errno)));
  }
  const SystemClock clock;
  const absl::Duration end = clock.Monotonic() + absl::Seconds(timeout_s);
  while (IsAlive(target) || IsListening(place.socket_path)) {
    if (clock.Monotonic() >= end) {
      return Unreachable(
          absl::StrCat("the local daemon (pid ", pid, ") has not ended within ", timeout_s, " s"),
          {absl::StrCat("its log is ", place.log_path())});
    }
    absl::SleepFor(kLaterPause);
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::client
