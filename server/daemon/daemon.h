// Wires the daemon's parts and runs them: locks, store, recovery, services, signals, idle end.
#pragma once

#include "absl/status/status.h"
#include "server/daemon/config.h"

namespace libreyolo::daemon {

// Exit code for a second daemon on the same store or address (EX_TEMPFAIL): whoever started it may
// use the first.
inline constexpr int kExitAlreadyRunning = 75;

// What RunDaemon would refuse before it changes anything: the address, the files of TLS and users.
// InvalidArgument says what is wrong with which.
absl::Status CheckStart(const Config& config);

// Runs until SIGTERM, SIGINT or (local) idleness. OK after an orderly end; AlreadyExists when
// another daemon holds the store or the address; other errors say why it could not start.
absl::Status RunDaemon(const Config& config);

}  // namespace libreyolo::daemon
