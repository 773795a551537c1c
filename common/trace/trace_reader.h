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
//                      offset
//   TRACE_EMPTY        no event, or none of a kind that the analysis knows
//   TRACE_TOO_LARGE    one of `limits` is passed; metadata `limit` is the daemon's flag for it
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/trace/byte_source.h"
#include "common/trace/read_limits.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::trace {

absl::StatusOr<RecordedTrace> ReadTrace(const std::string& path, const ReadLimits& limits = {});

// The same from memory, and from any source, which is unpacked when it is packed.
absl::StatusOr<RecordedTrace> ParseTrace(absl::string_view bytes, const ReadLimits& limits = {});
absl::StatusOr<RecordedTrace> ReadTraceFrom(std::unique_ptr<ByteSource> source,
                                            const ReadLimits& limits = {});

}  // namespace libreyolo::trace
