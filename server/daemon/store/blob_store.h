// Uploaded content, stored by its SHA-256: sent once, read by many jobs. Thread-safe; a BlobWriter
// is for one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/sha256.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

// Receives one blob; it exists only after Finish(). Dropping the writer drops what came.
class BlobWriter {
 public:
  ~BlobWriter();
  // LIMIT_EXCEEDED once more comes than was announced; ResourceExhausted when the disk is full.
  absl::Status Append(absl::string_view bytes);
  // DIGEST_MISMATCH when the content is not what its name says.
  absl::Status Finish();

 private:
  friend class BlobStore;
  BlobWriter(std::string target, std::string temporary, std::string digest, int64_t size_bytes,
             UniqueFd fd);

  const std::string target_;
  const std::string temporary_;
  const std::string digest_;
  const int64_t size_bytes_;
  int64_t written_ = 0;
  Sha256 sha_;
  UniqueFd fd_;
};

class BlobStore {
 public:
  BlobStore(std::string folder, int64_t max_blob_bytes)
      : folder_(std::move(folder)), max_blob_bytes_(max_blob_bytes) {}

  bool Has(const std::string& digest) const;
  // Where a blob lies, whether it exists or not. The digest has been checked to be one.
  std::string Path(const std::string& digest) const;
  // ARGUMENT_INVALID, LIMIT_EXCEEDED.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(const std::string& digest,
                                                    int64_t size_bytes) const;
  // Removes what uploads that a crash cut off left behind. For start-up, before any upload.
  void Sweep() const;
  int64_t max_blob_bytes() const { return max_blob_bytes_; }

 private:
  const std::string folder_;
  const int64_t max_blob_bytes_;
};

}  // namespace libreyolo::daemon
