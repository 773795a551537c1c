#include "server/daemon/inputs/unpack_zip.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/relative_path.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "server/daemon/store/disk_room.h"

namespace libreyolo::daemon {
namespace {

constexpr size_t kChunkBytes = 256 * 1024;
// Below this a high ratio costs nothing: label files are tiny and repetitive.
constexpr uint64_t kRatioFreeBytes = 1 << 20;

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

absl::Status Damaged(const std::string& archive, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the archive ", archive, " cannot be unpacked: ", why));
}

absl::Status WriteAll(int fd, const char* data, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t written = write(fd, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write", path);
    data += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

class Unpacker {
 public:
  Unpacker(const std::string& path, Archive archive, const std::string& folder,
           const UnpackLimits& limits)
      : path_(path), archive_(std::move(archive)), folder_(folder), limits_(limits) {}

  int64_t count() const { return zip_get_num_entries(archive_.get(), 0); }
  // By what the entries say of themselves; each is held to that when it is unpacked.
  absl::Status CheckRoom() const;
  absl::Status Unpack(int64_t index);

 private:
  absl::Status TooLarge() const;
  absl::Status Copy(int64_t index, const std::string& target, uint64_t stated_bytes);

  const std::string& path_;
  const Archive archive_;
  const std::string& folder_;
  const UnpackLimits& limits_;
  int64_t written_bytes_ = 0;
  std::vector<char> buffer_ = std::vector<char>(kChunkBytes);
};

absl::Status Unpacker::CheckRoom() const {
  uint64_t bytes = 0;
  const auto most = static_cast<uint64_t>(limits_.max_bytes);
  zip_stat_t info;
  for (int64_t i = 0; i < count() && bytes <= most; ++i) {
    if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &info) != 0 ||
        (info.valid & ZIP_STAT_SIZE) == 0) {
      continue;  // refused when its turn comes
    }
    bytes += std::min<uint64_t>(info.size, most + 1);
  }
  if (bytes > most) return TooLarge();
  return CheckDiskRoom(folder_, static_cast<int64_t>(bytes), limits_.min_free_bytes,
                       "an archive's files");
}

absl::Status Unpacker::TooLarge() const {
  return MakeError(reason::kLimitExceeded,
                   absl::StrCat(path_, " unpacks to more than ", limits_.max_bytes, " bytes"));
}

absl::Status Unpacker::Unpack(int64_t index) {
  zip_stat_t info;
  const auto wanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
  if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(index), 0, &info) != 0 ||
      (info.valid & wanted) != wanted) {
    return Damaged(path_, "an entry has no name or size");
  }
  const std::string name = info.name;
  const auto relative = NormalizeRelativePath(name);
  if (!relative.ok()) return Damaged(path_, absl::StrCat("the name \"", name, "\" is refused"));
  if (relative->empty()) return absl::OkStatus();
  const std::string target = absl::StrCat(folder_, "/", *relative);
  if (absl::EndsWith(name, "/")) return MakeDirectories(target);
  if (info.size > kRatioFreeBytes && info.size / std::max<uint64_t>(1, info.comp_size) >
                                         static_cast<uint64_t>(limits_.max_ratio)) {
    return MakeError(
        reason::kLimitExceeded,
        absl::StrCat("\"", name, "\" in ", path_, " is packed too tightly to be a picture"));
  }
  LY_RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(target).parent_path().string()));
  return Copy(index, target, info.size);
}

absl::Status Unpacker::Copy(int64_t index, const std::string& target, uint64_t stated_bytes) {
  const Entry entry(zip_fopen_index(archive_.get(), static_cast<zip_uint64_t>(index), 0));
  if (entry == nullptr) return Damaged(path_, zip_strerror(archive_.get()));
  // O_EXCL: an archive that names a file twice would replace what was checked.
  const UniqueFd file(open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return ErrnoStatus(errno, "make", target);
  uint64_t done = 0;
  for (;;) {
    const zip_int64_t got = zip_fread(entry.get(), buffer_.data(), buffer_.size());
    if (got < 0) return Damaged(path_, zip_file_strerror(entry.get()));
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
    written_bytes_ += got;
    if (done > stated_bytes) return Damaged(path_, "an entry is larger than it says");
    if (written_bytes_ > limits_.max_bytes) return TooLarge();
    LY_RETURN_IF_ERROR(WriteAll(file.get(), buffer_.data(), static_cast<size_t>(got), target));
  }
  if (done != stated_bytes) return Damaged(path_, "an entry is shorter than it says");
  return absl::OkStatus();
}

}  // namespace

absl::Status UnpackZip(const std::string& archive, const std::string& folder,
                       const UnpackLimits& limits, const std::atomic<bool>& cancelled,
                       const std::function<void(int64_t done, int64_t total)>& progress) {
  int code = 0;
  Archive opened(zip_open(archive.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  if (opened == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    return Damaged(archive, why);
  }
  Unpacker unpacker(archive, std::move(opened), folder, limits);
  if (unpacker.count() > limits.max_files) {
    return MakeError(reason::kLimitExceeded,
                     absl::StrCat(archive, " holds ", unpacker.count(), " files, over the limit"));
  }
  LY_RETURN_IF_ERROR(unpacker.CheckRoom());
  LY_RETURN_IF_ERROR(MakeDirectories(folder));
  for (int64_t i = 0; i < unpacker.count(); ++i) {
    if (cancelled.load()) return MakeError(reason::kCancelled, "cancelled while unpacking");
    LY_RETURN_IF_ERROR(unpacker.Unpack(i));
    if (progress) progress(i + 1, unpacker.count());
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::daemon
