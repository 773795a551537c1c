// Unpacks a downloaded ZIP archive. What it holds is foreign: names, sizes and counts are checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace libreyolo::daemon {

struct UnpackLimits {
  int64_t max_files = 500'000;
  int64_t max_bytes = int64_t{64} << 30;  // unpacked, all files together
  int64_t max_ratio = 200;                // unpacked to packed bytes of one file over a megabyte
  int64_t min_free_bytes = 0;             // what the disk must have left afterwards
};

// Writes the archive's files below `folder`, which is made. Links and devices in it become ordinary
// files or are refused; nothing is written outside. On an error some files may be there: unpack
// into a folder that can be thrown away.
//   InvalidArgument  not a ZIP file, damaged, encrypted, or a name that leaves the folder
//   LIMIT_EXCEEDED   too many files, too large, or packed too tightly
//   DISK_FULL        the disk has no room for what the archive says it holds
//   CANCELLED        `cancelled` turned true
absl::Status UnpackZip(const std::string& archive, const std::string& folder,
                       const UnpackLimits& limits, const std::atomic<bool>& cancelled,
                       const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace libreyolo::daemon
