// Writes a Chrome trace as JSON, event by event, in the shape that Perfetto, Kineto's readers and
// the Python peer take: an object with "traceEvents", times in microseconds with three decimals.
//
//   LY_ASSIGN_OR_RETURN(auto writer, TraceWriter::Open(path, {.name = "infer", .base_time_ns =
//   t})); const EventKind conv = writer->Register("cpu_op", "aten::conv2d");
//   writer->AddComplete(conv, {pid, tid}, start_ns, duration_ns, {{"External id", 7}});
//   LY_RETURN_IF_ERROR(writer->Finish(metadata));
//
// For one thread at a time. Memory stays at one buffer however many events there are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"
#include "common/json/json_value.h"

namespace libreyolo::trace {

// The value of "schema" in the object under "libreyolo".
inline constexpr char kTraceSchema[] = "libreyolo.trace/v1";

struct TraceHeader {
  std::string name;
  int64_t base_time_ns = 0;            // nanoseconds since 1970 at the trace's time 0
  JsonValue::Array device_properties;  // one object per GPU; empty on a CPU
};

// A row of the trace view: process and thread, or for GPU events device and stream.
struct Lane {
  int64_t pid;
  int64_t tid;
};

// A category and a name, registered with one writer.
struct EventKind {
  uint32_t index;
};

// One entry of an event's "args". The key is written as it is: a literal without quotes or
// backslashes.
struct TraceArg {
  using Triple = std::array<int64_t, 3>;  // a grid or block size
  const char* key;
  std::variant<int64_t, absl::string_view, Triple> value;
};

class TraceWriter {
 public:
  // Creates or truncates `path` and writes the header. The status of the failed open or write
  // otherwise (ErrnoStatus).
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Open(const std::string& path,
                                                           const TraceHeader& header);

  // Escapes category and name once; any bytes may stand in them.
  EventKind Register(absl::string_view category, absl::string_view name);

  // Times are nanoseconds from the trace's time 0. A negative duration is written as 0.
  void AddComplete(EventKind kind, Lane lane, int64_t start_ns, int64_t duration_ns,
                   absl::Span<const TraceArg> args = {});
  // The two ends of an arrow: where a launch call stands, and the GPU work that it started.
  // `kind`'s category and name must be equal at both ends, as must `id`.
  void AddFlowStart(EventKind kind, Lane lane, int64_t at_ns, int64_t id);
  void AddFlowEnd(EventKind kind, Lane lane, int64_t at_ns, int64_t id);
  void AddProcess(int64_t pid, absl::string_view name, absl::string_view labels,
                  int64_t sort_index);
  void AddThread(Lane lane, absl::string_view name, int64_t sort_index);

  // The first write that failed; everything added after it is dropped.
  const absl::Status& status() const { return status_; }
  int64_t event_count() const { return event_count_; }

  // Ends the event list, writes `metadata` under the top-level key "libreyolo", and closes the
  // file. Any earlier failure comes out here too: without an OK the file is of no use. At most
  // once; nothing may be added afterwards.
  absl::Status Finish(const JsonValue& metadata);

 private:
  TraceWriter(std::string path, UniqueFd fd);

  void BeginEvent(absl::string_view phase);
  void AddFlow(absl::string_view phase, EventKind kind, Lane lane, int64_t at_ns, int64_t id);
  void AddMetadata(absl::string_view name, Lane lane, absl::string_view key,
                   absl::string_view value_json);
  void Append(absl::string_view text) { buffer_.append(text.data(), text.size()); }
  void AppendInt(int64_t value);
  void AppendMicros(int64_t time_ns);
  void AppendArgs(absl::Span<const TraceArg> args);
  void EndEvent();
  void Flush();

  std::string path_;
  UniqueFd fd_;
  std::string buffer_;
  std::vector<std::string> kinds_;  // `"cat":"...","name":"...",`
  int64_t event_count_ = 0;
  absl::Status status_;
};

}  // namespace libreyolo::trace
