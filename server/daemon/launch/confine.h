// What a worker process may not do. It parses foreign files and runs a large library, so it starts
// with less than the daemon has: no way to new privileges, none of root's but to open files, no
// core dumps, bounded resources, none of the daemon's descriptors, and where the kernel allows that
// no network, no files but those it is granted, no children and no hold on other processes. When
// memory runs out the kernel takes it before the daemon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/daemon/launch/call_filter.h"
#include "server/daemon/launch/file_fence.h"

namespace libreyolo::daemon {

struct ConfinedProcess {
  std::string program;
  std::vector<std::string> environment;          // whole: "NAME=value"
  std::vector<std::pair<int, int>> descriptors;  // ours -> the child's; all others are closed
  CallFilter calls;
  const FileFence* files = nullptr;  // null: all that its account may open
  // Of the kernel, 0: none. Memory, CPU time and file sizes are the process's, `processes` the
  // account's.
  int64_t data_bytes = 0;
  int64_t cpu_seconds = 0;
  int64_t open_files = 0;
  int64_t processes = 0;
  int64_t file_bytes = 0;
};

struct StartedProcess {
  pid_t pid = 0;
  // Why the process shares the network's namespace although it should not, and why no filter keeps
  // its calls to itself; 0: as asked. With a filter it makes no sockets of a network anyhow.
  int network_error = 0;
  int filter_error = 0;
};

// To be called by a process that holds secrets: others of its account can then neither trace it nor
// read its memory and environment (prctl(2), PR_SET_DUMPABLE), and it leaves no core dump.
void HideFromOwnAccount();

// Starts `process` in a session and process group of its own, which it cannot leave, with default
// signals and nothing blocked. Returns once it runs the program. ErrnoStatus of what failed.
absl::StatusOr<StartedProcess> StartConfined(const ConfinedProcess& process);

}  // namespace libreyolo::daemon
