// The user's own libreyolod for one folder: where its socket and state are, and starting it. Two
// clients that start one at once both end up with the winner's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace libreyolo::client {

struct LocalDaemonPlace {
  std::string workspace;    // the canonical current folder
  std::string socket_path;  // below 107 bytes: gRPC refuses longer ones
  std::string state_dir;    // index, log, blobs
  std::string log_path() const { return state_dir + "/daemon.log"; }
};

// Makes the socket's and the state's parent folders (0700) where they are missing.
// SERVER_UNREACHABLE when the socket's folder belongs to somebody else or is open to others.
absl::StatusOr<LocalDaemonPlace> FindLocalDaemonPlace();

// True when somebody listens on the socket.
bool IsListening(const std::string& socket_path);

// The build of the daemon that has the place, as it wrote it down; "" when that is not known. Costs
// no call.
std::string BuildOfLocalDaemon(const LocalDaemonPlace& place);

// Starts `libreyolod --local` detached, found beside this executable or in PATH, with the settings
// of ConfigFolder()/libreyolod.textproto if there are any, and waits until it listens (10 s).
absl::Status StartLocalDaemon(const LocalDaemonPlace& place);

// SIGTERM, then waits until nobody listens and the process is gone. SERVER_UNREACHABLE when it does
// not end in time.
absl::Status StopLocalDaemon(const LocalDaemonPlace& place, int64_t pid, int timeout_s);

}  // namespace libreyolo::client
