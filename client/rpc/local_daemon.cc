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
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace libreyolo::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kHashDigits = 16;
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr auto kStartTimeout = std::chrono::seconds(10);
constexpr int kExitAlreadyRunning = 75;  // another client's daemon won the start

absl::Status Unreachable(const std::string& message, std::vector<std::string> hints = {}) {
  return MakeError(reason::kServerUnreachable, message, std::move(hints));
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A folder that only this user may enter, for the socket.
absl::Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unreachable(absl::StrCat("cannot make the folder ", path,
                                    " for the local daemon's socket: ", strerror(errno)),
                       {"set XDG_RUNTIME_DIR to a folder of yours"});
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0) {
    return Unreachable(absl::StrCat(path, " is not a folder that only you may enter"),
                       {absl::StrCat("remove it, or set XDG_RUNTIME_DIR to a folder of yours")});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SocketFolder() {
  const std::string runtime = Environment("XDG_RUNTIME_DIR");
  std::string folder;
  if (!runtime.empty() && access(runtime.c_str(), W_OK) == 0) {
    folder = runtime + "/libreyolo";
  } else {
    const std::string temporary = Environment("TMPDIR").empty() ? "/tmp" : Environment("TMPDIR");
    folder = absl::StrCat(temporary, "/libreyolo-", geteuid());
  }
  LY_RETURN_IF_ERROR(MakePrivateFolder(folder));
  return folder;
}

absl::StatusOr<std::string> StateFolder() {
  if (const std::string state = Environment("XDG_STATE_HOME"); !state.empty())
    return state + "/libreyolo";
  const std::string home = Environment("HOME");
  if (home.empty()) {
    return Unreachable(
        "neither HOME nor XDG_STATE_HOME is set: there is no place for the local daemon's state",
        {"set XDG_STATE_HOME to a folder of yours"});
  }
  return home + "/.local/state/libreyolo";
}

std::string FindDaemonExecutable() {
  char self[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (size > 0) {
    std::string path(self, static_cast<size_t>(size));
    path = path.substr(0, path.rfind('/') + 1) + "libreyolod";
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  const std::string search_path = Environment("PATH");
  for (const absl::string_view folder : absl::StrSplit(search_path, ':')) {
    const std::string path = absl::StrCat(folder, "/libreyolod");
    if (!folder.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

absl::StatusOr<pid_t> Spawn(const std::string& executable, const LocalDaemonPlace& place) {
  std::vector<std::string> words = {
      executable, "--local",       "--workspace", place.workspace,
      "--state",  place.state_dir, "--listen",    "unix:" + place.socket_path};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // Nothing of the caller's may stay open in a process that outlives it: a pipe would never end.
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  // The folder is named by --workspace; standing in "/" keeps no file system busy.
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, executable.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return Unreachable(absl::StrCat("cannot start ", executable, ": ", strerror(error)));
  return pid;
}

}  // namespace

absl::StatusOr<LocalDaemonPlace> FindLocalDaemonPlace() {
  LocalDaemonPlace place;
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) == nullptr) {
    return Unreachable(absl::StrCat("the current folder is gone: ", strerror(errno)));
  }
  place.workspace = folder;
  const std::string hash = Sha256Hex(place.workspace).substr(0, kHashDigits);
  LY_ASSIGN_OR_RETURN(const std::string sockets, SocketFolder());
  place.socket_path = absl::StrCat(sockets, "/", hash, ".sock");
  if (place.socket_path.size() > kMaxSocketPath) {
    return Unreachable(absl::StrCat("the socket's path is too long: ", place.socket_path),
                       {"set XDG_RUNTIME_DIR to a folder with a shorter path"});
  }
  LY_ASSIGN_OR_RETURN(const std::string state, StateFolder());
  place.state_dir = absl::StrCat(state, "/", hash);
  return place;
}

bool IsListening(const std::string& socket_path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (!fd || socket_path.size() > kMaxSocketPath) return false;
  std::memcpy(name.sun_path, socket_path.data(), socket_path.size());
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
}

absl::Status StartLocalDaemon(const LocalDaemonPlace& place) {
  const std::string executable = FindDaemonExecutable();
  if (executable.empty()) {
    return Unreachable("libreyolod was found neither beside this program nor in PATH",
                       {"install it", "name a server with --server or LIBREYOLO_SERVER"});
  }
  const absl::Status made = MakeDirectories(place.state_dir, 0700);
  if (!made.ok())
    return Unreachable(std::string(made.message()), {"set XDG_STATE_HOME to a folder of yours"});
  LY_ASSIGN_OR_RETURN(const pid_t pid, Spawn(executable, place));
  const auto start = steady_clock::now();
  bool running = true;
  while (steady_clock::now() - start < kStartTimeout) {
    if (IsListening(place.socket_path)) return absl::OkStatus();
    int status = 0;
    if (running && waitpid(pid, &status, WNOHANG) == pid) {
      running = false;
      const bool lost_race = WIFEXITED(status) && WEXITSTATUS(status) == kExitAlreadyRunning;
      if (!lost_race) {
        return Unreachable(
            absl::StrCat("the local libreyolod ended at its start (",
                         WIFEXITED(status) ? "exit " : "signal ",
                         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), ")"),
            {absl::StrCat("the end of ", place.log_path(), ":\n",
                          TailOfFile(place.log_path(), 600))});
      }
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  return Unreachable("the local libreyolod did not start within 10 s",
                     {absl::StrCat("see ", place.log_path())});
}

absl::Status StopLocalDaemon(const LocalDaemonPlace& place, int64_t pid, int timeout_s) {
  if (pid <= 1 || kill(static_cast<pid_t>(pid), SIGTERM) != 0) {
    return Unreachable(absl::StrCat("the local libreyolod (pid ", pid,
                                    ") cannot be asked to end: ", strerror(errno)));
  }
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < std::chrono::seconds(timeout_s)) {
    const bool gone = kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
    if (gone && !IsListening(place.socket_path)) return absl::OkStatus();
    // A daemon that this very process started is its child.
    waitpid(static_cast<pid_t>(pid), nullptr, WNOHANG);
    std::this_thread::sleep_for(milliseconds(5));
  }
  return Unreachable(
      absl::StrCat("the local libreyolod (pid ", pid, ") did not end within ", timeout_s, " s"),
      {"a running job is let finish first: libreyolo jobs list"});
}

}  // namespace libreyolo::client
