// Small file helpers that report what failed and where. Safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo {

// A status for errno `error` of an operation on `path`: "cannot open PATH: Permission denied".
// ENOENT is NotFound, EACCES and EPERM PermissionDenied, ENOSPC and EDQUOT ResourceExhausted, the
// rest Internal.
absl::Status ErrnoStatus(int error, absl::string_view operation, absl::string_view path);

// The whole file. ResourceExhausted when it is larger than `limit_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes = INT64_MAX);

// Writes `data` to a new or truncated file; no fsync.
absl::Status WriteFile(const std::string& path, absl::string_view data);

// Writes to a temporary file beside `path`, fsyncs it and renames it into place: a reader sees the
// old bytes or the new.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view data);

// Makes `path` and its parents. `mode` is for folders that are made.
absl::Status MakeDirectories(const std::string& path, unsigned mode = 0777);

absl::Status FsyncPath(const std::string& path);

// At most the last `max_bytes` of the file; empty when it cannot be read.
std::string TailOfFile(const std::string& path, int64_t max_bytes);

}  // namespace libreyolo
