// Who uploaded what: a blob is stored once, but counts for, and can be named by, those who sent it.
// So a digest alone gives nobody another's file, nor tells whether the server has it. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/daemon/store/blob_store.h"
#include "server/daemon/store/index.h"

namespace libreyolo::daemon {

class UploadBook {
 public:
  // `max_stored_bytes` is each principal's limit for uploads and results; 0: none. All outlive it.
  // `on_stored` hears of each upload that is complete; may be empty.
  UploadBook(Index& index, const BlobStore& blobs, int64_t max_stored_bytes,
             std::function<void(int64_t bytes)> on_stored = {})
      : index_(index),
        blobs_(blobs),
        max_stored_bytes_(max_stored_bytes),
        on_stored_(std::move(on_stored)) {}

  // True when the blob is there and `principal` sent it.
  bool Owns(const std::string& principal, const std::string& digest) const;
  // BLOB_NOT_FOUND names `shown`, what the user calls the file.
  absl::Status CheckOwns(const std::string& principal, const std::string& digest,
                         const std::string& shown) const;
  // QUOTA_EXCEEDED when the principal's uploads and the results in `workspace` reach the limit.
  absl::Status CheckRoom(const std::string& principal, const std::string& workspace) const;

  // Room for an upload that is under way, given back with the object.
  class Reservation {
   public:
    Reservation(UploadBook& book, std::string principal, int64_t bytes)
        : book_(book), principal_(std::move(principal)), bytes_(bytes) {}
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

   private:
    UploadBook& book_;
    const std::string principal_;
    const int64_t bytes_;
  };
  // QUOTA_EXCEEDED when `bytes` more, of the blob `digest`, do not fit. Uploads at the same time
  // count, and what is kept of those that broke off.
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(const std::string& principal,
                                                       const std::string& workspace,
                                                       const std::string& digest, int64_t bytes);
  // Notes that `principal` sent the blob, which is stored.
  absl::Status Add(const std::string& principal, const std::string& digest, int64_t bytes);

 private:
  Index& index_;
  const BlobStore& blobs_;
  const int64_t max_stored_bytes_;
  const std::function<void(int64_t bytes)> on_stored_;
  mutable std::mutex mu_;
  std::map<std::string, int64_t> reserved_;  // bytes under way, by principal
};

}  // namespace libreyolo::daemon
