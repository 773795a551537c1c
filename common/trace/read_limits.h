// How much of a trace is read at most, and with what.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace libreyolo::trace {

struct ReadLimits {
  // Asked now and then while a trace is read; true ends the reading with CANCELLED.
  std::function<bool()> is_cancelled;
  int64_t max_bytes = int64_t{16} << 30;        // unpacked
  int64_t max_events = int64_t{200} * 1000000;  // elements of the event list
  int64_t max_memory_bytes = int64_t{8} << 30;  // of the records and names that are kept
  int64_t max_value_bytes = int64_t{64} << 20;  // one event, one member of the header
  int64_t block_bytes = 256 << 10;              // text that is parsed at once
  int threads = 1;                              // that may parse; 1 or 2 and more
  // Of text: what is shorter is read by one thread all the same, which is then faster.
  int64_t parallel_bytes = int64_t{32} << 20;
};

// What passed which limit, as TRACE_TOO_LARGE. `flag` is the daemon's, whose limits these are.
absl::Status LimitPassed(absl::string_view what, absl::string_view flag);

inline constexpr char kMaxTraceBytesFlag[] = "--max-trace-bytes";
inline constexpr char kMaxTraceEventsFlag[] = "--max-trace-events";
inline constexpr char kMaxTraceMemoryFlag[] = "--max-trace-memory";
inline constexpr char kMaxTraceValueFlag[] = "--max-trace-value";

}  // namespace libreyolo::trace
