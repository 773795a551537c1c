// Downloads a file over HTTP(S) to a place in the cache, so that a broken connection loses nothing:
// `<target>.part` is resumed, the digest is checked, and the finished file appears at once. Blocks;
// any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace libreyolo::daemon {

struct DownloadRequest {
  std::string url;
  std::string target;
  std::string bearer_token;  // sent to the URL's own host only
  int64_t max_bytes = int64_t{4} << 30;
  int64_t min_free_bytes = 0;  // what the target's disk must have left afterwards
  // Pauses before each further attempt.
  std::vector<absl::Duration> pauses = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(4)};
};

struct DownloadResult {
  std::string digest;     // SHA-256 of the file
  bool verified = false;  // against the digest that the server named; also in `<target>.sha256`
};

// Total 0 while unknown.
using DownloadProgress = std::function<void(int64_t done, int64_t total)>;

//   NotFound         the server does not publish the file (401, 403, 404, 410, ...), or it cannot
//   be
//                    reached, which is known at once; the message says which
//   Unavailable      the connection broke off in every attempt
//   DIGEST_MISMATCH  what came is not what the server named; it was removed
//   LIMIT_EXCEEDED   more than `max_bytes`
//   DISK_FULL        the disk has no room for what the hub says is coming
//   CANCELLED        `cancelled` turned true; the part stays for the next time
//
// A part is resumed only if the server still has the same file (If-Range). Two downloaders of one
// target take turns by `<target>.lock`, and the second one finds the first one's file.
absl::StatusOr<DownloadResult> DownloadFile(const DownloadRequest& request,
                                            const std::atomic<bool>& cancelled,
                                            const DownloadProgress& progress);

// True for an error of DownloadFile that tells its user all there is to know: CANCELLED,
// DIGEST_MISMATCH, DISK_FULL, LIMIT_EXCEEDED. Of others the caller says what they were for.
bool TellsAll(const absl::Status& status);

}  // namespace libreyolo::daemon
