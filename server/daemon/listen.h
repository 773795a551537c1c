// The address that a daemon listens on, claimed so that a second daemon fails at once. gRPC itself
// would let two share a port (SO_REUSEPORT) and would take a living daemon's socket away.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

// Locks `path` for this process and writes "PID\nBUILD\n" into it: clients read there whether a
// local daemon is of their build. AlreadyExists names the holder's pid and `what` is held.
absl::StatusOr<UniqueFd> LockFile(const std::string& path, const std::string& what);

struct ListenAddress {
  std::string grpc;  // as gRPC takes it
  UniqueFd lock;     // of a unix socket, beside it
};

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
  bool is_loopback = false;  // no network reaches it
};

// "HOST:PORT" or "[V6]:PORT". InvalidArgument names `flag`.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text, const std::string& flag);

// What ClaimAddress would refuse for its text alone. InvalidArgument.
absl::Status CheckAddress(const std::string& listen, bool has_tls);

// InvalidArgument for an address that is none, or plain TCP (`has_tls` false) off loopback;
// AlreadyExists when somebody listens there. A socket file that a dead daemon left is removed.
absl::StatusOr<ListenAddress> ClaimAddress(const std::string& listen, bool has_tls);

}  // namespace libreyolo::daemon
