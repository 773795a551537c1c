// The life of a worker process on its link: greet, take one plan, run it, report how it ended.
#pragma once

#include "common/base/unique_fd.h"

namespace libreyolo::worker {

// Exit codes of the process. The daemon goes by the last message; these are for people.
inline constexpr int kExitFinished = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitLinkLost = 3;

// Sends Hello, receives a plan, runs it on the calling thread, sends exactly one of Finished and
// Failed, and returns the exit code. Must be called before the process's first use of LibTorch.
//
// The caller ends the process with _exit at once: a thread still waits for the daemon's messages,
// and tearing LibTorch down takes time for nothing. When the link breaks first, that thread ends
// the process by itself, in the middle of whatever runs: without a daemon there is nobody to work
// for.
int RunWorker(UniqueFd link);

}  // namespace libreyolo::worker
