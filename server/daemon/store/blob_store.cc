#include "server/daemon/store/blob_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "server/daemon/store/disk_room.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

// Less is sent again faster than it is kept.
constexpr int64_t kMinKeptBytes = 64 * 1024;
constexpr absl::Duration kKeepPartial = absl::Hours(24);
constexpr size_t kMaxPartialFiles = 64;  // of one principal
constexpr size_t kReadBytes = 1 << 20;

int64_t SizeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

// The digest of a file's first `bytes`.
absl::Status Feed(int fd, int64_t bytes, const std::string& path, Sha256& sha) {
  std::string buffer(kReadBytes, '\0');
  for (int64_t at = 0; at < bytes;) {
    const size_t wanted = static_cast<size_t>(std::min<int64_t>(kReadBytes, bytes - at));
    const ssize_t got = pread(fd, buffer.data(), wanted, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ErrnoStatus(got < 0 ? errno : EIO, "read", path);
    sha.Update(absl::string_view(buffer.data(), static_cast<size_t>(got)));
    at += got;
  }
  return absl::OkStatus();
}

}  // namespace

BlobWriter::BlobWriter(const BlobStore& store, std::string target, std::string temporary,
                       std::string digest, int64_t size_bytes, bool keeps_part, UniqueFd fd)
    : store_(store),
      target_(std::move(target)),
      temporary_(std::move(temporary)),
      digest_(std::move(digest)),
      size_bytes_(size_bytes),
      keeps_part_(keeps_part),
      fd_(std::move(fd)) {}

BlobWriter::~BlobWriter() {
  if (fd_ && (!keeps_part_ || written_ < kMinKeptBytes)) unlink(temporary_.c_str());
  store_.Release(temporary_);
}

absl::Status BlobWriter::Append(absl::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > size_bytes_ - written_) {
    return MakeError(reason::kLimitExceeded,
                     absl::StrCat("more than the announced ", size_bytes_, " bytes came"));
  }
  LY_RETURN_IF_ERROR(AtFaultPoint(store_.at_, "upload write"));
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write", temporary_);
    // What is in the file and what is in the digest stay the same, also when the disk is full.
    sha_.Update(bytes.substr(0, static_cast<size_t>(count)));
    written_ += count;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Finish() {
  if (written_ != size_bytes_) {
    return MakeError(reason::kDigestMismatch,
                     absl::StrCat("only ", written_, " of ", size_bytes_, " bytes came"));
  }
  const std::string got = sha_.FinishHex();
  if (got != digest_) {
    unlink(temporary_.c_str());
    fd_.Reset();
    return MakeError(reason::kDigestMismatch,
                     absl::StrCat("the content has the digest ", got, ", not ", digest_));
  }
  LY_RETURN_IF_ERROR(AtFaultPoint(store_.at_, "fsync upload"));
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync", temporary_);
  (void)AtFaultPoint(store_.at_, "after fsync upload");
  LY_RETURN_IF_ERROR(AtFaultPoint(store_.at_, "upload rename"));
  if (rename(temporary_.c_str(), target_.c_str()) != 0)
    return ErrnoStatus(errno, "rename", temporary_);
  (void)AtFaultPoint(store_.at_, "after upload rename");
  fd_.Reset();
  // A queued job may count on it over a power cut.
  LY_RETURN_IF_ERROR(AtFaultPoint(store_.at_, "fsync upload folder"));
  LY_RETURN_IF_ERROR(FsyncPath(fs::path(target_).parent_path()));
  (void)AtFaultPoint(store_.at_, "after fsync upload folder");
  return absl::OkStatus();
}

std::string BlobStore::Path(const std::string& digest) const {
  return absl::StrCat(folder_, "/", digest.substr(0, 2), "/", digest);
}

std::string BlobStore::PartialDir(const std::string& principal) const {
  return absl::StrCat(PartialRoot(), "/", principal);
}

bool BlobStore::Has(const std::string& digest) const {
  return IsSha256Hex(digest) && access(Path(digest).c_str(), R_OK) == 0;
}

bool BlobStore::IsActive(const std::string& path) const {
  const std::lock_guard<std::mutex> lock(mu_);
  return active_.count(path) > 0;
}

void BlobStore::Release(const std::string& path) const {
  const std::lock_guard<std::mutex> lock(mu_);
  active_.erase(path);
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Begin(const std::string& digest,
                                                             int64_t size_bytes,
                                                             const std::string& principal,
                                                             int64_t offset) const {
  if (!IsSha256Hex(digest))
    return MakeError(reason::kArgumentInvalid, "a blob's digest is 64 lower-case hex digits");
  if (size_bytes < 0 || size_bytes > max_blob_bytes_) {
    return MakeError(reason::kLimitExceeded,
                     absl::StrCat("a file of ", size_bytes, " bytes is over the limit of ",
                                  max_blob_bytes_, " bytes"),
                     {"the server's admin can raise --max-upload",
                      "name a smaller file, or put it on the server by hand"});
  }
  if (offset < 0 || offset > size_bytes) {
    return MakeError(reason::kArgumentOutOfRange,
                     absl::StrCat("an upload of ", size_bytes, " bytes cannot go on at ", offset));
  }
  LY_RETURN_IF_ERROR(AtFaultPoint(at_, "upload begin"));
  LY_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(folder_, "/", digest.substr(0, 2)), 0700));
  const std::string part = absl::StrCat(PartialDir(principal), "/", digest);
  bool is_taken = false;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    int64_t coming = size_bytes - offset;
    for (const auto& [path, bytes] : active_) coming += bytes;
    LY_RETURN_IF_ERROR(CheckDiskRoom(folder_, coming, min_free_bytes_, "uploads"));
    is_taken = principal.empty() || !active_.emplace(part, size_bytes - offset).second;
  }
  if (!is_taken) {
    auto writer = Open(digest, size_bytes, part, offset);
    if (!writer.ok()) Release(part);
    return writer;
  }
  if (offset > 0) {
    return MakeError(reason::kBusy, "another upload of this file is under way",
                     {"try again in a moment"});
  }
  // Two at once: the second one has a file of its own, which nobody can go on with.
  std::string temporary = absl::StrCat(Path(digest), ".XXXXXX");
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "make", temporary);
  const std::lock_guard<std::mutex> lock(mu_);
  active_.emplace(temporary, size_bytes);
  return std::unique_ptr<BlobWriter>(new BlobWriter(
      *this, Path(digest), temporary, digest, size_bytes, /*keeps_part=*/false, std::move(fd)));
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Open(const std::string& digest,
                                                            int64_t size_bytes,
                                                            const std::string& path,
                                                            int64_t offset) const {
  const std::string folder = fs::path(path).parent_path();
  LY_RETURN_IF_ERROR(MakeDirectories(folder, 0700));
  LimitPartial(folder);
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, "open", path);
  if (const int64_t have = SizeOf(path); have < offset) {
    if (have == 0) unlink(path.c_str());
    return MakeError(reason::kArgumentOutOfRange,
                     absl::StrCat("the server has ", have, " bytes of it, not ", offset));
  }
  if (ftruncate(fd.get(), offset) != 0) return ErrnoStatus(errno, "truncate", path);
  std::unique_ptr<BlobWriter> writer(new BlobWriter(*this, Path(digest), path, digest, size_bytes,
                                                    /*keeps_part=*/true, std::move(fd)));
  LY_RETURN_IF_ERROR(Feed(writer->fd_.get(), offset, path, writer->sha_));
  if (lseek(writer->fd_.get(), offset, SEEK_SET) != offset) return ErrnoStatus(errno, "seek", path);
  writer->written_ = offset;
  return writer;
}

// Room for one more: the oldest goes.
void BlobStore::LimitPartial(const std::string& folder) const {
  std::vector<std::pair<fs::file_time_type, std::string>> files;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (!IsActive(file.path())) files.emplace_back(file.last_write_time(error), file.path());
  }
  if (files.size() < kMaxPartialFiles) return;
  unlink(std::min_element(files.begin(), files.end())->second.c_str());
}

int64_t BlobStore::Received(const std::string& principal, const std::string& digest) const {
  const std::string path = absl::StrCat(PartialDir(principal), "/", digest);
  return IsActive(path) ? 0 : SizeOf(path);
}

int64_t BlobStore::PartialBytes(const std::string& principal, const std::string& digest) const {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(PartialDir(principal), error)) {
    if (file.path().filename() != digest && !IsActive(file.path())) bytes += SizeOf(file.path());
  }
  return bytes;
}

void BlobStore::Sweep() const {
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(folder_, error)) {
    for (const auto& file : fs::directory_iterator(folder.path(), error)) {
      if (!IsSha256Hex(file.path().filename().string())) fs::remove(file.path(), error);
    }
  }
}

void BlobStore::SweepPartial(absl::Time now) const {
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(PartialRoot(), error)) {
    for (const auto& file : fs::directory_iterator(folder.path(), error)) {
      struct stat info;
      if (stat(file.path().c_str(), &info) != 0 || IsActive(file.path())) continue;
      if (absl::FromTimeT(info.st_mtime) + kKeepPartial < now) unlink(file.path().c_str());
    }
  }
}

}  // namespace libreyolo::daemon
