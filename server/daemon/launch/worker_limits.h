// What a worker process may take, whatever it was fed with.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace libreyolo::daemon {

// 0: no limit, but for memory and CPU time, which then have that of the host and of the job.
struct WorkerLimits {
  // Of its own memory: no files, no libraries, no device memory. The daemon looks twice a second
  // and ends a worker that is over it; on the CPU the kernel also refuses to give more
  // (RLIMIT_DATA, which counts what is reserved and would stop CUDA at its start).
  int64_t memory_bytes = 0;
  int64_t cpu_seconds = 0;
  int64_t open_files = 16'384;
  // Processes and threads of the daemon's whole account, as the kernel counts. Not for root.
  int64_t processes = 0;
  int64_t file_bytes = int64_t{32} << 30;  // of one file that it writes
};

// What a job logs by its worker's stderr.
inline constexpr int64_t kMaxJobLogBytes = int64_t{64} << 20;

// What this host, or the control group of the process, has.
int64_t HostMemoryBytes();

// Own memory of a process and its direct children; 0 when there is none.
int64_t OwnMemoryOf(pid_t pid);

// How often the kernel ended a process for lack of memory since it started; 0 where it does not
// tell.
int64_t KernelOomKills();

// OUT_OF_MEMORY and WORKER_LIMIT, worded for the job's user.
absl::Status OverMemory(int64_t used_bytes, int64_t limit_bytes);
absl::Status Refused(int64_t limit_bytes);  // it asked for more memory than there is for it
absl::Status OverLimit(const std::string& what, const char* flag);

}  // namespace libreyolo::daemon
