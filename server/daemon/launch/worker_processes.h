// Which processes of the host are workers', and the end of those that an earlier daemon left.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

namespace libreyolo::daemon {

// What all processes of a job have in their environment, however they came to be.
std::string JobMark(const std::string& job_id);

// True for a worker of this daemon and for all that one started; also where that can no longer be
// told, the process being gone. It can tell because orphans of a worker are this process's (a
// subreaper), and because no worker can get rid of PR_SET_NO_NEW_PRIVS.
bool IsOfWorker(pid_t pid);

// Kills and reaps what workers left behind that have ended themselves: children of this process (a
// subreaper gets all orphans) under the filter of system calls that workers start with, which none
// can get rid of, but for `workers`, the leaders that live. True while some were found: call again.
// Where the kernel does not count filters (before Linux 5.9) nothing is found.
bool EndStrays(const std::set<pid_t>& workers);

// Start time of a process in clock ticks since boot, from /proc; 0 when there is none. With the pid
// it names a process for good.
int64_t ProcessStartTicks(int pid);

// Kills what an earlier daemon left of a job: its worker and that one's group, and every process
// of this user that bears the job's mark, also where the worker itself is gone or a child left its
// group. They may take a moment to be gone; until then they hold the job's device.
void KillLeftoverProcesses(const std::string& job_id, int worker_pid, int64_t start_ticks);

}  // namespace libreyolo::daemon
