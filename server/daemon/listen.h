// The addresses that a daemon listens on, claimed so that a second daemon fails at once. gRPC
// itself would let two share a port (SO_REUSEPORT) and would take a living daemon's socket away.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

// Locks `path` for this process and writes "PID\nBUILD\n" into it: clients read there whether a
// local daemon is of their build. AlreadyExists names the holder's pid and `what` is held.
absl::StatusOr<UniqueFd> LockFile(const std::string& path, const std::string& what);

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
  bool is_loopback = false;  // no network reaches it
};

// "HOST:PORT" or "[V6]:PORT". InvalidArgument names `flag`.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text, const std::string& flag);

bool IsSocketAddress(const std::string& listen);    // "unix:PATH"
bool IsLoopbackAddress(const std::string& listen);  // HOST:PORT that no network reaches

// Who may connect to a unix socket.
struct SocketRights {
  unsigned mode = 0600;
  std::string group;  // empty: the process's own
};

struct ListenAddress {
  std::string name;  // as it was asked for, with the port that was bound
  bool is_socket = false;
  UniqueFd lock;                  // of a unix socket, beside it
  std::vector<UniqueFd> sockets;  // bound, one for each address that the host's name has

  // From here on callers get in. ErrnoStatus.
  absl::Status Open() const;
};

// What ClaimAddress would refuse for its text alone. InvalidArgument.
absl::Status CheckAddress(const std::string& listen, bool has_tls);

// InvalidArgument for an address that is none, a group that is not there, or plain TCP (`has_tls`
// false) off loopback; AlreadyExists when somebody listens there. A socket file that a dead daemon
// left is removed. Call before other threads make files: a socket is private from its first moment
// by the process's umask.
absl::StatusOr<ListenAddress> ClaimAddress(const std::string& listen, bool has_tls,
                                           const SocketRights& rights);

}  // namespace libreyolo::daemon
