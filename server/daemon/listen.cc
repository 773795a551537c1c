#include "server/daemon/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"

namespace libreyolo::daemon {
namespace {

// gRPC refuses longer ones with an unclear error.
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

absl::StatusOr<ListenAddress> ClaimSocket(const std::string& path) {
  if (path.empty() || path.size() > kMaxSocketPath) {
    return absl::InvalidArgumentError(absl::StrCat("the socket path has ", path.size(),
                                                   " bytes; 1 to ", kMaxSocketPath,
                                                   " are possible: ", path));
  }
  ListenAddress address;
  address.grpc = absl::StrCat("unix:", path);
  LY_ASSIGN_OR_RETURN(address.lock,
                      LockFile(path + ".lock", absl::StrCat("the address unix:", path)));
  // With the lock held a socket there is a dead daemon's, unless somebody else's program listens.
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) {
    return absl::AlreadyExistsError(absl::StrCat("another program listens on unix:", path));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return ErrnoStatus(errno, "remove the stale socket", path);
  return address;
}

}  // namespace

absl::StatusOr<UniqueFd> LockFile(const std::string& path, const std::string& what) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return ErrnoStatus(errno, "open", path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const std::string text = ReadFile(path, 1024).value_or("");
    const std::string pid = text.substr(0, text.find('\n'));
    return absl::AlreadyExistsError(
        absl::StrCat(what, " is in use by another libreyolod",
                     pid.empty() ? "" : absl::StrCat(" (pid ", pid, ")")));
  }
  const std::string text = absl::StrCat(getpid(), "\n", BuildId(), "\n");
  if (ftruncate(fd.get(), 0) != 0 || pwrite(fd.get(), text.data(), text.size(), 0) < 0) {
    return ErrnoStatus(errno, "write", path);
  }
  return fd;
}

absl::StatusOr<ListenAddress> ClaimAddress(const std::string& listen, bool has_tls) {
  absl::string_view rest = listen;
  if (absl::ConsumePrefix(&rest, "unix:")) return ClaimSocket(std::string(rest));
  const size_t colon = listen.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(listen.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen takes unix:PATH or HOST:PORT, not \"", listen, "\""));
  }
  std::string host = listen.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]"))
    host = host.substr(1, host.size() - 2);
  if (!has_tls && !IsLoopback(host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("plain TCP is refused on ", host,
                     ": anybody could read and run jobs there. Give --tls-cert, --tls-key and "
                     "--tokens, or listen on 127.0.0.1 or a unix socket"));
  }
  ListenAddress address;
  address.grpc = listen;
  return address;
}

}  // namespace libreyolo::daemon
