// Writes log lines with spdlog: one line an event, `time level event key=value ...`, values quoted
// where they need it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/log.h"

namespace libreyolo {

// A sink that appends to `path` (rotating at 8 MiB, 3 files kept), or to stderr when `path` is
// empty. Where stderr is a pipe that nobody reads, lines are dropped, and counted in the next one
// that gets through; who logs waits for it no longer than a moment. Thread-safe. Internal when the
// file cannot be opened.
absl::StatusOr<std::unique_ptr<LogSink>> MakeSpdlogSink(const std::string& path, LogLevel lowest);

}  // namespace libreyolo
