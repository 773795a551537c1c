// Brings a published dataset into the cache. Blocks; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/daemon/inputs/dataset_finder.h"
#include "server/daemon/inputs/hub_download.h"

namespace libreyolo::daemon {

// Downloads `dataset.archive`, unpacks it and returns the path of the YAML file that is written
// beside the pictures. The folder appears whole or not at all; two processes may do it at once. Its
// disk keeps `min_free_bytes`.
//   DATASET_NOT_FOUND  it cannot be had from here; says why and the ways out
//   DATASET_INVALID    the archive holds no pictures, or cannot be unpacked
//   DIGEST_MISMATCH, CANCELLED, LIMIT_EXCEEDED, DISK_FULL
absl::StatusOr<std::string> FetchDataset(const FoundDataset& dataset,
                                         const std::string& bearer_token, int64_t min_free_bytes,
                                         const std::atomic<bool>& cancelled,
                                         const DownloadProgress& progress);

}  // namespace libreyolo::daemon
