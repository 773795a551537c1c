#include "common/base/log.h"

#include <atomic>

namespace libreyolo {
namespace {

// The one mutable global of the project: a log sink reached from everywhere is worth more than
// passing it through each constructor. Set once before threads start.
std::atomic<LogSink*> g_sink{nullptr};

}  // namespace

void SetLogSink(LogSink* sink) { g_sink.store(sink); }

void Log(LogLevel level, absl::string_view event, LogFields fields) {
  if (LogSink* sink = g_sink.load(std::memory_order_acquire)) sink->Write(level, event, fields);
}

}  // namespace libreyolo
