#include "common/trace/trace_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/file.h"

namespace libreyolo::trace {
namespace {

// Large enough that a 10 MB trace takes some forty writes.
constexpr size_t kFlushBytes = 256 << 10;
// More than any one event but those with huge kernel names, for which the buffer grows.
constexpr size_t kEventRoom = 8 << 10;

constexpr int kTraceFormatVersion = 1;

}  // namespace

TraceWriter::TraceWriter(std::string path, UniqueFd fd)
    : path_(std::move(path)), fd_(std::move(fd)) {
  buffer_.reserve(kFlushBytes + kEventRoom);
}

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Open(const std::string& path,
                                                               const TraceHeader& header) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return ErrnoStatus(errno, "create", path);
  auto writer = absl::WrapUnique(new TraceWriter(path, std::move(fd)));
  writer->Append(absl::StrCat(
      "{\n\"schemaVersion\": ", kTraceFormatVersion,
      ",\n\"deviceProperties\": ", JsonValue(header.device_properties).ToCompact(),
      ",\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ", header.base_time_ns,
      ",\n\"traceName\": ", JsonQuote(header.name), ",\n\"traceEvents\": ["));
  return writer;
}

EventKind TraceWriter::Register(absl::string_view category, absl::string_view name) {
  kinds_.push_back(
      absl::StrCat("\"cat\":", JsonQuote(category), ",\"name\":", JsonQuote(name), ","));
  return EventKind{static_cast<uint32_t>(kinds_.size() - 1)};
}

void TraceWriter::AppendInt(int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  buffer_.append(digits, static_cast<size_t>(end - digits));
}

void TraceWriter::AppendMicros(int64_t time_ns) {
  if (time_ns < 0) {
    buffer_.push_back('-');
    time_ns = -time_ns;
  }
  AppendInt(time_ns / 1000);
  const int rest = static_cast<int>(time_ns % 1000);
  const char fraction[4] = {'.', static_cast<char>('0' + rest / 100),
                            static_cast<char>('0' + rest / 10 % 10),
                            static_cast<char>('0' + rest % 10)};
  buffer_.append(fraction, sizeof fraction);
}

void TraceWriter::AppendArgs(absl::Span<const TraceArg> args) {
  if (args.empty()) return;
  Append(",\"args\":{\"");
  bool first = true;
  for (const TraceArg& arg : args) {
    if (!first) Append(",\"");
    first = false;
    Append(arg.key);
    Append("\":");
    if (const auto* number = std::get_if<int64_t>(&arg.value)) {
      AppendInt(*number);
    } else if (const auto* text = std::get_if<absl::string_view>(&arg.value)) {
      Append(JsonQuote(*text));
    } else {
      const auto& triple = std::get<TraceArg::Triple>(arg.value);
      for (size_t i = 0; i < triple.size(); ++i) {
        buffer_.push_back(i == 0 ? '[' : ',');
        AppendInt(triple[i]);
      }
      buffer_.push_back(']');
    }
  }
  buffer_.push_back('}');
}

void TraceWriter::BeginEvent(absl::string_view phase) {
  LY_CHECK(fd_) << "event after Finish";
  Append(event_count_ == 0 ? "\n{\"ph\":\"" : ",\n{\"ph\":\"");
  Append(phase);
  Append("\",");
  ++event_count_;
}

void TraceWriter::EndEvent() {
  buffer_.push_back('}');
  if (buffer_.size() >= kFlushBytes) Flush();
}

void TraceWriter::AddComplete(EventKind kind, Lane lane, int64_t start_ns, int64_t duration_ns,
                              absl::Span<const TraceArg> args) {
  BeginEvent("X");
  Append(kinds_[kind.index]);
  Append("\"pid\":");
  AppendInt(lane.pid);
  Append(",\"tid\":");
  AppendInt(lane.tid);
  Append(",\"ts\":");
  AppendMicros(start_ns);
  Append(",\"dur\":");
  AppendMicros(duration_ns < 0 ? 0 : duration_ns);
  AppendArgs(args);
  EndEvent();
}

void TraceWriter::AddFlow(absl::string_view phase, EventKind kind, Lane lane, int64_t at_ns,
                          int64_t id) {
  BeginEvent(phase);
  Append(kinds_[kind.index]);
  Append("\"id\":");
  AppendInt(id);
  Append(",\"pid\":");
  AppendInt(lane.pid);
  Append(",\"tid\":");
  AppendInt(lane.tid);
  Append(",\"ts\":");
  AppendMicros(at_ns);
  // The arrow ends at the slice that encloses its end, not at the next one.
  if (phase == "f") Append(",\"bp\":\"e\"");
  EndEvent();
}

void TraceWriter::AddFlowStart(EventKind kind, Lane lane, int64_t at_ns, int64_t id) {
  AddFlow("s", kind, lane, at_ns, id);
}

void TraceWriter::AddFlowEnd(EventKind kind, Lane lane, int64_t at_ns, int64_t id) {
  AddFlow("f", kind, lane, at_ns, id);
}

void TraceWriter::AddMetadata(absl::string_view name, Lane lane, absl::string_view key,
                              absl::string_view value_json) {
  BeginEvent("M");
  Append(absl::StrCat("\"name\":", JsonQuote(name), ",\"pid\":", lane.pid, ",\"tid\":", lane.tid,
                      ",\"ts\":0.000,\"args\":{", JsonQuote(key), ":", value_json, "}"));
  EndEvent();
}

void TraceWriter::AddProcess(int64_t pid, absl::string_view name, absl::string_view labels,
                             int64_t sort_index) {
  const Lane lane{pid, 0};
  AddMetadata("process_name", lane, "name", JsonQuote(name));
  AddMetadata("process_labels", lane, "labels", JsonQuote(labels));
  AddMetadata("process_sort_index", lane, "sort_index", absl::StrCat(sort_index));
}

void TraceWriter::AddThread(Lane lane, absl::string_view name, int64_t sort_index) {
  AddMetadata("thread_name", lane, "name", JsonQuote(name));
  AddMetadata("thread_sort_index", lane, "sort_index", absl::StrCat(sort_index));
}

void TraceWriter::Flush() {
  size_t done = 0;
  while (status_.ok() && done < buffer_.size()) {
    const ssize_t written = write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      status_ = ErrnoStatus(errno, "write", path_);
    }
  }
  buffer_.clear();
}

absl::Status TraceWriter::Finish(const JsonValue& metadata) {
  LY_CHECK(fd_) << "Finish called twice";
  Append("\n],\n\"libreyolo\": ");
  Append(metadata.ToCompact());
  Append("\n}\n");
  Flush();
  // close() is where a network file system reports what it could not store.
  if (close(fd_.Release()) != 0 && status_.ok()) status_ = ErrnoStatus(errno, "close", path_);
  return status_;
}

}  // namespace libreyolo::trace
