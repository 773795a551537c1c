#include "common/base/log.h"

#include <atomic>
#include <vector>

namespace libreyolo {
namespace {

// The one mutable global of the project: a log sink reached from everywhere is worth more than
// passing it through each constructor. Set once before threads start.
std::atomic<LogSink*> g_sink{nullptr};

thread_local const LogScope* t_scope = nullptr;

}  // namespace

void SetLogSink(LogSink* sink) { g_sink.store(sink); }

LogScope::LogScope(absl::string_view key, absl::string_view value)
    : field_(key, value), outer_(t_scope) {
  t_scope = this;
}

LogScope::~LogScope() { t_scope = outer_; }

void Log(LogLevel level, absl::string_view event, LogFields fields) {
  LogSink* sink = g_sink.load(std::memory_order_acquire);
  if (sink == nullptr) return;
  if (t_scope == nullptr) return sink->Write(level, event, fields);
  std::vector<LogField> all(fields);
  for (const LogScope* scope = t_scope; scope != nullptr; scope = scope->outer_) {
    all.push_back(scope->field_);
  }
  sink->Write(level, event, all);
}

}  // namespace libreyolo
