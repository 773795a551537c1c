#include "client/rpc/ssh_tunnel.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/rpc/local_daemon.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {
namespace {

// Where the packages' service listens.
constexpr char kUsualSocket[] = "/run/libreyolod/libreyolod.sock";
constexpr size_t kCopyBytes = 64 * 1024;

absl::Status BadSshAddress(absl::string_view text, absl::string_view why) {
  return MakeError(reason::kArgumentInvalid,
                   absl::StrCat("the server address \"", text, "\" ", why),
                   {"one over ssh looks like ssh://HOST, ssh://USER@HOST:PORT or "
                    "ssh://HOST/path/of/the/server.sock"});
}

bool IsAllOf(absl::string_view text, absl::string_view signs) {
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        signs.find(c) == absl::string_view::npos) {
      return false;
    }
  }
  return !text.empty() && text[0] != '-';  // else ssh would take it for a flag
}

bool FillSocketName(const std::string& path, sockaddr_un* name) {
  name->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof name->sun_path) return false;
  std::memcpy(name->sun_path, path.data(), path.size());
  return true;
}

// Moves what can be read at `from` to `to`; false at the end of either.
bool Copy(int from, int to) {
  char buffer[kCopyBytes];
  const ssize_t got = read(from, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got <= 0) return false;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t count = write(to, buffer + sent, static_cast<size_t>(got - sent));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    sent += count;
  }
  return true;
}

}  // namespace

absl::StatusOr<SshAddress> ParseSshAddress(absl::string_view text) {
  absl::string_view rest = text;
  absl::ConsumePrefix(&rest, "ssh://");
  SshAddress address;
  if (const size_t slash = rest.find('/'); slash != absl::string_view::npos) {
    const absl::string_view path = rest.substr(slash);
    rest = rest.substr(0, slash);
    if (path != "/") {
      // It passes through the shell there.
      if (!IsAllOf(path, "/._-"))
        return BadSshAddress(text, "has a path with other signs than /._-");
      address.socket = std::string(path);
    }
  }
  absl::string_view host = rest;
  if (const size_t at = rest.rfind('@'); at != absl::string_view::npos) {
    host = rest.substr(at + 1);
    if (!IsAllOf(rest.substr(0, at), "._-")) return BadSshAddress(text, "has no user's name");
  }
  if (const size_t colon = host.find(':'); colon != absl::string_view::npos) {
    int port = 0;
    address.port = std::string(host.substr(colon + 1));
    if (!absl::SimpleAtoi(address.port, &port) || port < 1 || port > 65535) {
      return BadSshAddress(text, "has no port between 1 and 65535");
    }
    address.port = absl::StrCat(port);
    host = host.substr(0, colon);
    rest = rest.substr(0, rest.rfind(':'));
  }
  if (!IsAllOf(host, "._-")) return BadSshAddress(text, "names no host");
  address.destination = std::string(rest);
  return address;
}

SshTunnel::SshTunnel(const SshAddress& address, std::string socket_path, UniqueFd listener,
                     UniqueFd stop)
    : socket_path_(std::move(socket_path)), listener_(std::move(listener)), stop_(std::move(stop)) {
  command_ = {"ssh", "-T"};
  if (!address.port.empty()) command_.insert(command_.end(), {"-p", address.port});
  command_.insert(command_.end(), {"--", address.destination, "libreyolo", "dial-stdio"});
  if (!address.socket.empty()) command_.push_back(address.socket);
  thread_ = std::thread([this] { Serve(); });
}

SshTunnel::~SshTunnel() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
  unlink(socket_path_.c_str());
}

absl::StatusOr<std::shared_ptr<SshTunnel>> SshTunnel::Open(const SshAddress& address) {
  // Beside the local daemon's sockets: a folder that nobody else can look into.
  LY_ASSIGN_OR_RETURN(const LocalDaemonPlace place, FindLocalDaemonPlace());
  const std::string folder = place.socket_path.substr(0, place.socket_path.rfind('/'));
  const std::string path = absl::StrCat(folder, "/ssh-", getpid(), ".sock");
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!listener || !stop) return ErrnoStatus(errno, "make", path);
  sockaddr_un name{};
  unlink(path.c_str());
  if (!FillSocketName(path, &name) ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      listen(listener.get(), 4) != 0) {
    return ErrnoStatus(errno, "listen on", path);
  }
  return std::shared_ptr<SshTunnel>(
      new SshTunnel(address, path, std::move(listener), std::move(stop)));
}

void SshTunnel::Serve() {
  for (;;) {
    pollfd watched[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if (watched[1].revents != 0) return;
    if (watched[0].revents == 0) continue;
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) StartSsh(std::move(connection));
    // Earlier ones that ended.
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

void SshTunnel::StartSsh(UniqueFd connection) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, connection.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, connection.get(), 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Ctrl-C is for this client, which then needs the connection to cancel its job.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  // This process ignores SIGPIPE, and ssh would inherit that.
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (std::string& word : command_) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, "ssh", &actions, &attributes, argv.data(), environ);
  if (error != 0) std::fprintf(stderr, "libreyolo: cannot run ssh: %s\n", strerror(error));
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
}

int DialStdio(const std::vector<std::string>& words) {
  std::string path = kUsualSocket;
  const char* variable = std::getenv("LIBREYOLO_SERVER");
  if (variable != nullptr && std::strncmp(variable, "unix:", 5) == 0) path = variable + 5;
  if (!words.empty()) path = words[0];
  signal(SIGPIPE, SIG_IGN);
  const UniqueFd server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  if (!FillSocketName(path, &name) ||
      connect(server.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) {
    std::fprintf(stderr, "libreyolo dial-stdio: no server at unix:%s: %s\n", path.c_str(),
                 strerror(errno));
    return 4;
  }
  bool sending = true;
  for (;;) {
    pollfd watched[] = {{sending ? STDIN_FILENO : -1, POLLIN, 0}, {server.get(), POLLIN, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return 4;
    if (watched[0].revents != 0 && !Copy(STDIN_FILENO, server.get())) {
      sending = false;
      shutdown(server.get(), SHUT_WR);
    }
    if (watched[1].revents != 0 && !Copy(server.get(), STDOUT_FILENO)) return 0;
  }
}

}  // namespace libreyolo::client
