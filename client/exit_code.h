// The one table from an error's reason to the exit code of a command. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace libreyolo::client {

inline constexpr int kExitOk = 0;
inline constexpr int kExitTrace = 1;          // a trace that cannot be analysed
inline constexpr int kExitArgument = 2;       // a missing file, an argument that cannot be resolved
inline constexpr int kExitNoProfile = 3;      // nothing was measured
inline constexpr int kExitUnreachable = 4;    // no server
inline constexpr int kExitBusy = 5;           // a server that takes no more
inline constexpr int kExitNotPermitted = 6;   // not authenticated, or not allowed
inline constexpr int kExitConditionMet = 10;  // compare --fail-on
inline constexpr int kExitInterrupted = 130;

// A reason that this build does not know (a later server's) goes by its first word, as the families
// of reasons are named: WEIGHTS_*, SOURCE_*, DATASET_*, DEVICE_*, ARGUMENT_* are 2, TRACE_* 1; else
// 3.
int ExitCodeOfReason(absl::string_view reason);

// 0 for OK.
int ExitCodeOf(const absl::Status& status);

}  // namespace libreyolo::client
