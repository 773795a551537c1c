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

absl::StatusOr<HostPort> ParseHostPort(const std::string& text, const std::string& flag) {
  const size_t colon = text.rfind(':');
  HostPort out;
  if (colon == std::string::npos || colon == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " takes HOST:PORT, such as 127.0.0.1:7430, or unix:PATH, not \"", text, "\""));
  }
  if (!absl::SimpleAtoi(text.substr(colon + 1), &out.port) || out.port < 0 || out.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", text, ": \"", text.substr(colon + 1),
                     "\" is no port; give one from 1 to 65535, or 0 for any that is free"));
  }
  out.host = text.substr(0, colon);
  if (absl::StartsWith(out.host, "[") && absl::EndsWith(out.host, "]"))
    out.host = out.host.substr(1, out.host.size() - 2);
  out.is_loopback = IsLoopback(out.host);
  return out;
}

absl::Status CheckAddress(const std::string& listen, bool has_tls) {
  absl::string_view path = listen;
  if (absl::ConsumePrefix(&path, "unix:")) {
    if (!path.empty() && path.size() <= kMaxSocketPath) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen ", listen, ": the socket's path has ", path.size(), " bytes, and 1 to ",
        kMaxSocketPath, " are possible; take one in a folder with a short name, such as /run"));
  }
  LY_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(listen, "--listen"));
  if (!has_tls && !address.is_loopback) {
    return absl::InvalidArgumentError(
        absl::StrCat("plain TCP is refused on ", address.host,
                     ": anybody could read and run jobs there. Give --tls-cert, --tls-key and "
                     "--tokens, or listen on 127.0.0.1 or a unix socket"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ListenAddress> ClaimAddress(const std::string& listen, bool has_tls) {
  LY_RETURN_IF_ERROR(CheckAddress(listen, has_tls));
  absl::string_view rest = listen;
  if (absl::ConsumePrefix(&rest, "unix:")) return ClaimSocket(std::string(rest));
  ListenAddress address;
  address.grpc = listen;
  return address;
}

}  // namespace libreyolo::daemon
