// Uploaded content, stored by its SHA-256: sent once, read by many jobs. What comes of an upload
// that breaks off is kept apart for the one who sent it, for another upload to go on. Thread-safe;
// a BlobWriter is for one thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/fault_points.h"
#include "common/base/sha256.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

class BlobStore;

// Receives one blob; it exists only after Finish(). What came before is kept when the writer is
// dropped, if it is worth it.
class BlobWriter {
 public:
  ~BlobWriter();
  // LIMIT_EXCEEDED once more comes than was announced; ResourceExhausted when the disk is full.
  absl::Status Append(absl::string_view bytes);
  // DIGEST_MISMATCH when the content is not what its name says: all of it is thrown away; or when
  // it is not all there, which another upload may change.
  absl::Status Finish();

 private:
  friend class BlobStore;
  BlobWriter(const BlobStore& store, std::string target, std::string temporary, std::string digest,
             int64_t size_bytes, bool keeps_part, UniqueFd fd);

  const BlobStore& store_;
  const std::string target_;
  const std::string temporary_;
  const std::string digest_;
  const int64_t size_bytes_;
  const bool keeps_part_;
  int64_t written_ = 0;
  Sha256 sha_;
  UniqueFd fd_;
};

class BlobStore {
 public:
  // Uploads leave `min_free_bytes` of the disk. Parts of uploads lie beside `folder`. `at` is asked
  // at "upload begin", "upload write", "fsync upload", "upload rename" and "fsync upload folder".
  BlobStore(std::string folder, int64_t max_blob_bytes, int64_t min_free_bytes = 0,
            FaultHook at = {})
      : folder_(std::move(folder)),
        max_blob_bytes_(max_blob_bytes),
        min_free_bytes_(min_free_bytes),
        at_(std::move(at)) {}

  bool Has(const std::string& digest) const;
  // Where a blob lies, whether it exists or not. The digest has been checked to be one.
  std::string Path(const std::string& digest) const;

  // An upload of `principal` that begins at byte `offset`; what lies behind it of an earlier one is
  // dropped. Must not outlive the store.
  //   ARGUMENT_INVALID, LIMIT_EXCEEDED
  //   ARGUMENT_OUT_OF_RANGE  less is there than `offset`
  //   BUSY                   the upload that it would go on with is not over
  //   DISK_FULL              it would not fit
  absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(const std::string& digest, int64_t size_bytes,
                                                    const std::string& principal = "",
                                                    int64_t offset = 0) const;
  // How much of a blob came in an upload of `principal` that broke off. 0: nothing, or it goes on.
  int64_t Received(const std::string& principal, const std::string& digest) const;
  // All that is kept of uploads of `principal` that broke off, but for `digest`.
  int64_t PartialBytes(const std::string& principal, const std::string& digest) const;

  // Removes what a crash left that nobody can go on with. For start-up, before any upload.
  void Sweep() const;
  // Removes what nobody went on with for a day.
  void SweepPartial(absl::Time now) const;
  int64_t max_blob_bytes() const { return max_blob_bytes_; }

 private:
  friend class BlobWriter;
  std::string PartialRoot() const { return folder_ + ".partial"; }
  std::string PartialDir(const std::string& principal) const;
  bool IsActive(const std::string& path) const;
  absl::StatusOr<std::unique_ptr<BlobWriter>> Open(const std::string& digest, int64_t size_bytes,
                                                   const std::string& path, int64_t offset) const;
  void LimitPartial(const std::string& folder) const;
  void Release(const std::string& path) const;

  const std::string folder_;
  const int64_t max_blob_bytes_;
  const int64_t min_free_bytes_;
  const FaultHook at_;
  mutable std::mutex mu_;
  mutable std::map<std::string, int64_t> active_;  // files being written -> bytes still to come
};

}  // namespace libreyolo::daemon
