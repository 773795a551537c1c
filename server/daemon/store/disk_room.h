// Whether a disk has room, before something large is written to it. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace libreyolo::daemon {

// DISK_FULL, with the numbers, when the disk of `folder` (or of its nearest parent that exists)
// would have less than `min_free_bytes` left after `need_bytes` more; `what` needs them. OK where
// the disk does not tell.
absl::Status CheckDiskRoom(const std::string& folder, int64_t need_bytes, int64_t min_free_bytes,
                           absl::string_view what);

}  // namespace libreyolo::daemon
