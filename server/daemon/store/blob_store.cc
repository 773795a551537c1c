#include "server/daemon/store/blob_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {

BlobWriter::BlobWriter(std::string target, std::string temporary, std::string digest,
                       int64_t size_bytes, UniqueFd fd)
    : target_(std::move(target)),
      temporary_(std::move(temporary)),
      digest_(std::move(digest)),
      size_bytes_(size_bytes),
      fd_(std::move(fd)) {}

BlobWriter::~BlobWriter() {
  if (fd_) unlink(temporary_.c_str());
}

absl::Status BlobWriter::Append(absl::string_view bytes) {
  written_ += static_cast<int64_t>(bytes.size());
  if (written_ > size_bytes_) {
    return MakeError(reason::kLimitExceeded,
                     absl::StrCat("more than the announced ", size_bytes_, " bytes came"));
  }
  sha_.Update(bytes);
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write", temporary_);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Finish() {
  const std::string got = sha_.FinishHex();
  if (written_ != size_bytes_ || got != digest_) {
    return MakeError(reason::kDigestMismatch,
                     absl::StrCat("the content has ", written_, " bytes and the digest ", got,
                                  ", not ", size_bytes_, " and ", digest_));
  }
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync", temporary_);
  if (rename(temporary_.c_str(), target_.c_str()) != 0)
    return ErrnoStatus(errno, "rename", temporary_);
  fd_.Reset();
  // A queued job may count on it over a power cut.
  return FsyncPath(std::filesystem::path(target_).parent_path());
}

std::string BlobStore::Path(const std::string& digest) const {
  return absl::StrCat(folder_, "/", digest.substr(0, 2), "/", digest);
}

bool BlobStore::Has(const std::string& digest) const {
  return IsSha256Hex(digest) && access(Path(digest).c_str(), R_OK) == 0;
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Begin(const std::string& digest,
                                                             int64_t size_bytes) const {
  if (!IsSha256Hex(digest))
    return MakeError(reason::kArgumentInvalid, "a blob's digest is 64 lower-case hex digits");
  if (size_bytes < 0 || size_bytes > max_blob_bytes_) {
    return MakeError(reason::kLimitExceeded,
                     absl::StrCat("a file of ", size_bytes, " bytes is over the limit of ",
                                  max_blob_bytes_, " bytes"));
  }
  LY_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(folder_, "/", digest.substr(0, 2)), 0700));
  std::string temporary = absl::StrCat(Path(digest), ".XXXXXX");
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "make", temporary);
  return std::unique_ptr<BlobWriter>(
      new BlobWriter(Path(digest), temporary, digest, size_bytes, std::move(fd)));
}

void BlobStore::Sweep() const {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(folder_, error)) {
    for (const auto& file : fs::directory_iterator(folder.path(), error)) {
      if (!IsSha256Hex(file.path().filename().string())) fs::remove(file.path(), error);
    }
  }
}

}  // namespace libreyolo::daemon
