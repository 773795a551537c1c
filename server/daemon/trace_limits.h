// The daemon's limits on the traces that it reads, as its operator sets them: by flags, and for a
// daemon that a client starts, whose command line nobody writes, by environment variables.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/trace/read_limits.h"

namespace libreyolo::daemon {

// `given` holds the flags that were on the command line (read_limits.h names them) and their
// values; a missing one is looked for in the environment, as LIBREYOLO_MAX_TRACE_BYTES and so on.
// 0 lifts a limit. InvalidArgument names the flag or the variable whose value is no count.
absl::StatusOr<trace::ReadLimits> ParseTraceLimits(const std::map<std::string, std::string>& given);

}  // namespace libreyolo::daemon
