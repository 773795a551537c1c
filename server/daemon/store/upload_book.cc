#include "server/daemon/store/upload_book.h"

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

absl::Status OverQuota(int64_t stored, int64_t more, int64_t limit) {
  return MakeError(reason::kQuotaExceeded,
                   absl::StrCat("your uploads and results have ", stored, " bytes",
                                more > 0 ? absl::StrCat(", and ", more, " more") : "",
                                "; the server keeps ", limit, " for each user"),
                   {"ask the server's admin to clear your workspace or to raise "
                    "--max-stored-per-user"},
                   {{"stored_bytes", absl::StrCat(stored)}, {"limit_bytes", absl::StrCat(limit)}});
}

}  // namespace

bool UploadBook::Owns(const std::string& principal, const std::string& digest) const {
  if (!blobs_.Has(digest)) return false;
  const absl::StatusOr<bool> known = index_.HasUpload(principal, digest);
  return known.ok() && *known;
}

absl::Status UploadBook::CheckOwns(const std::string& principal, const std::string& digest,
                                   const std::string& shown) const {
  if (Owns(principal, digest)) return absl::OkStatus();
  return MakeError(reason::kBlobNotFound, absl::StrCat("\"", shown, "\" was not uploaded"), {},
                   {{"digest", digest}});
}

absl::Status UploadBook::CheckRoom(const std::string& principal,
                                   const std::string& workspace) const {
  if (max_stored_bytes_ <= 0) return absl::OkStatus();
  LY_ASSIGN_OR_RETURN(int64_t stored, index_.StoredBytes(principal, workspace));
  stored += blobs_.PartialBytes(principal, "");
  return stored < max_stored_bytes_ ? absl::OkStatus() : OverQuota(stored, 0, max_stored_bytes_);
}

absl::StatusOr<std::unique_ptr<UploadBook::Reservation>> UploadBook::Reserve(
    const std::string& principal, const std::string& workspace, const std::string& digest,
    int64_t bytes) {
  if (bytes < 0) return MakeError(reason::kArgumentInvalid, "an upload's size is below 0");
  LY_ASSIGN_OR_RETURN(int64_t stored, index_.StoredBytes(principal, workspace));
  // What is there of this one is part of `bytes`.
  if (max_stored_bytes_ > 0) stored += blobs_.PartialBytes(principal, digest);
  const std::lock_guard<std::mutex> lock(mu_);
  int64_t& reserved = reserved_[principal];
  // Subtracted, since the sum of what a client announces could overflow.
  if (max_stored_bytes_ > 0 && bytes > max_stored_bytes_ - stored - reserved) {
    return OverQuota(stored + reserved, bytes, max_stored_bytes_);
  }
  // Without a limit nothing is counted.
  const int64_t counted = max_stored_bytes_ > 0 ? bytes : 0;
  reserved += counted;
  return std::make_unique<Reservation>(*this, principal, counted);
}

UploadBook::Reservation::~Reservation() {
  const std::lock_guard<std::mutex> lock(book_.mu_);
  book_.reserved_[principal_] -= bytes_;
}

absl::Status UploadBook::Add(const std::string& principal, const std::string& digest,
                             int64_t bytes) {
  if (on_stored_) on_stored_(bytes);
  return index_.AddUpload(principal, digest, bytes);
}

}  // namespace libreyolo::daemon
