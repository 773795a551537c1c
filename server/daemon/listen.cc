#include "server/daemon/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"

namespace libreyolo::daemon {
namespace {

constexpr char kUnix[] = "unix:";
constexpr int kBacklog = 1024;
// The kernel takes no longer ones.
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

bool IsLoopback(const std::string& host) {
  // The numbers only: "127.example.org" may be anywhere.
  in_addr ip;
  return host == "localhost" || host == "::1" ||
         (inet_pton(AF_INET, host.c_str(), &ip) == 1 && (ntohl(ip.s_addr) >> 24) == 127);
}

absl::Status SetRights(const std::string& path, const SocketRights& rights) {
  if (!rights.group.empty()) {
    group entry{};
    group* found = nullptr;
    char buffer[1 << 14];
    getgrnam_r(rights.group.c_str(), &entry, buffer, sizeof buffer, &found);
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("--socket-group: this host has no group \"", rights.group, "\""));
    }
    if (chown(path.c_str(), static_cast<uid_t>(-1), found->gr_gid) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--socket-group: the socket cannot be given to ", rights.group, ": ", strerror(errno)));
    }
  }
  if (chmod(path.c_str(), rights.mode) != 0) return ErrnoStatus(errno, "set the mode of", path);
  return absl::OkStatus();
}

absl::StatusOr<ListenAddress> ClaimSocket(const std::string& path, const SocketRights& rights) {
  if (path.empty() || path.size() > kMaxSocketPath) {
    return absl::InvalidArgumentError(absl::StrCat("the socket path has ", path.size(),
                                                   " bytes; 1 to ", kMaxSocketPath,
                                                   " are possible: ", path));
  }
  ListenAddress address;
  address.name = absl::StrCat(kUnix, path);
  address.is_socket = true;
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
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "make", "a socket");
  const mode_t before = umask(0177);
  const int bound = bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name);
  const int error = errno;
  umask(before);
  if (bound != 0) return ErrnoStatus(error, "listen on", address.name);
  LY_RETURN_IF_ERROR(SetRights(path, rights));
  address.sockets.push_back(std::move(fd));
  return address;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

absl::StatusOr<UniqueFd> BindPort(const addrinfo& info, bool both_families) {
  UniqueFd fd(socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "make", "a socket");
  const int on = 1;
  const int alone = both_families ? 0 : 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info.ai_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &alone, sizeof alone);
  }
  if (bind(fd.get(), info.ai_addr, info.ai_addrlen) != 0) return ErrnoStatus(errno, "bind", "it");
  return fd;
}

void SetPort(addrinfo& info, int port) {
  const uint16_t wire = htons(static_cast<uint16_t>(port));
  if (info.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(info.ai_addr)->sin6_port = wire;
  } else {
    reinterpret_cast<sockaddr_in*>(info.ai_addr)->sin_port = wire;
  }
}

int PortOf(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

absl::StatusOr<ListenAddress> ClaimPort(const std::string& shown_host, const std::string& host,
                                        int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), "0", &hints, &list);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: no address for \"", host, "\": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owned(list);
  // "::" alone stands for both families, as people expect it to.
  const bool both_families = list->ai_next == nullptr;
  ListenAddress address;
  absl::Status status = absl::OkStatus();
  for (addrinfo* info = list; info != nullptr; info = info->ai_next) {
    SetPort(*info, port);
    absl::StatusOr<UniqueFd> fd = BindPort(*info, both_families);
    if (!fd.ok()) {
      // A name such as localhost may have an address of a family that the host is without.
      status = fd.status();
      continue;
    }
    if (port == 0) port = PortOf(fd->get());
    address.sockets.push_back(*std::move(fd));
  }
  address.name = absl::StrCat(shown_host, ":", port);
  if (!address.sockets.empty()) return address;
  return absl::AlreadyExistsError(absl::StrCat(
      "cannot listen on ", address.name, ": it is in use or not allowed (", status.message(), ")"));
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

bool IsSocketAddress(const std::string& listen) { return absl::StartsWith(listen, kUnix); }

bool IsLoopbackAddress(const std::string& listen) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(listen, "--listen");
  return parsed.ok() && parsed->is_loopback;
}

absl::Status ListenAddress::Open() const {
  for (const UniqueFd& fd : sockets) {
    if (listen(fd.get(), kBacklog) != 0) return ErrnoStatus(errno, "listen on", name);
  }
  return absl::OkStatus();
}

absl::StatusOr<ListenAddress> ClaimAddress(const std::string& listen, bool has_tls,
                                           const SocketRights& rights) {
  LY_RETURN_IF_ERROR(CheckAddress(listen, has_tls));
  if (IsSocketAddress(listen)) return ClaimSocket(listen.substr(sizeof kUnix - 1), rights);
  LY_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(listen, "--listen"));
  return ClaimPort(listen.substr(0, listen.rfind(':')), parsed.host, parsed.port);
}

}  // namespace libreyolo::daemon
