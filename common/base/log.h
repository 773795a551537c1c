// Structured log lines: a constant event text and fields. Only the two server executables link an
// implementation that writes (server/log/log_spdlog.h); without one, lines go nowhere, so libraries
// may log freely. Thread-safe.
//
//   LogWarning("capture lost records", {{"job", job.id}, {"dropped", loss.record_count}});
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace libreyolo {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// A field's value as text; numbers and text convert by themselves.
struct LogField {
  template <typename T>
  LogField(absl::string_view key, const T& value) : key(key), value(absl::StrCat(value)) {}
  absl::string_view key;
  std::string value;
};

using LogFields = std::initializer_list<LogField>;

// Receives every line. Must be thread-safe and outlive all logging.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(LogLevel level, absl::string_view event,
                     absl::Span<const LogField> fields) = 0;
};

// While it lives, each line that this thread logs ends in its field too, so that code which knows
// nothing of jobs need not be told of them:
//
//   const LogScope scope("job", place.job_id);
//
// Scopes nest; they are destroyed in the reverse order, on the thread that made them.
class LogScope {
 public:
  // `key` outlives the scope.
  LogScope(absl::string_view key, absl::string_view value);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  friend void Log(LogLevel level, absl::string_view event, LogFields fields);
  const LogField field_;
  const LogScope* const outer_;
};

// Called once by main() before threads start.
void SetLogSink(LogSink* sink);

void Log(LogLevel level, absl::string_view event, LogFields fields);

inline void LogDebug(absl::string_view event, LogFields fields = {}) {
  Log(LogLevel::kDebug, event, fields);
}
inline void LogInfo(absl::string_view event, LogFields fields = {}) {
  Log(LogLevel::kInfo, event, fields);
}
inline void LogWarning(absl::string_view event, LogFields fields = {}) {
  Log(LogLevel::kWarning, event, fields);
}
inline void LogError(absl::string_view event, LogFields fields = {}) {
  Log(LogLevel::kError, event, fields);
}

}  // namespace libreyolo
