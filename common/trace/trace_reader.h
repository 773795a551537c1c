// Reads a Chrome trace as PyTorch's profiler writes it, from 2021 on: an object with "traceEvents"
// or a bare array; plain, gzip or zstd. Faults whose meaning is certain are mended and counted
// (RecordedTrace::counts); any other fault ends the reading with its byte offset.
//
//   LY_ASSIGN_OR_RETURN(const RecordedTrace trace, ReadTrace("profile_trace.json"));
//
// The text is read in blocks, so memory is the records' plus a few blocks. Safe to call from any
// thread. Errors:
//   PROFILE_NOT_FOUND  there is no such file
//   TRACE_UNPARSABLE   not JSON or not a trace; message and metadata name the (unpacked) byte
//   offset TRACE_EMPTY        no event, or none of a kind that the analysis knows TRACE_TOO_LARGE
//   a limit below is passed
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/trace/byte_source.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::trace {

struct ReadLimits {
  int64_t max_bytes = int64_t{16} << 30;        // unpacked
  int64_t max_events = int64_t{200} * 1000000;  // elements of the event list
  int64_t max_value_bytes = int64_t{64} << 20;  // one event, one member of the header
  int64_t block_bytes = 256 << 10;              // text that is parsed at once
  int threads = 1;                              // that parse; 1 or 2 and more
};

absl::StatusOr<RecordedTrace> ReadTrace(const std::string& path, const ReadLimits& limits = {});

// The same from memory, and from any source, which is unpacked when it is packed.
absl::StatusOr<RecordedTrace> ParseTrace(absl::string_view bytes, const ReadLimits& limits = {});
absl::StatusOr<RecordedTrace> ReadTraceFrom(std::unique_ptr<ByteSource> source,
                                            const ReadLimits& limits = {});

}  // namespace libreyolo::trace
