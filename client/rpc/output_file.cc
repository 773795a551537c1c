#include "client/rpc/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The disk is full or broken: the command failed, its argument was right.
absl::Status WriteError(int error, absl::string_view operation, const std::string& path) {
  return MakeError(reason::kStoreFailed,
                   std::string(ErrnoStatus(error, operation, path).message()));
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Make(const std::string& path, bool force,
                                            const std::string& option) {
  if (path.empty()) {
    return MakeError(reason::kArgumentInvalid, absl::StrCat(option, " names no file"),
                     {absl::StrCat(option, " timeline.html")});
  }
  OutputFile file(path, force, option);
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return MakeError(reason::kArgumentInvalid, absl::StrCat(path, " is a folder"),
                       {absl::StrCat(option, " ", (fs::path(path) / "timeline.html").string())});
    }
    if (!S_ISREG(info.st_mode)) {
      return MakeError(reason::kArgumentInvalid, absl::StrCat(path, " is no regular file"),
                       {absl::StrCat(option, " - writes to standard output")});
    }
    if (!force) return file.Conflict();
  }
  LY_RETURN_IF_ERROR(file.Open());
  return file;
}

OutputFile::~OutputFile() {
  if (!part_.empty() && fd_) unlink(part_.c_str());
}

absl::Status OutputFile::Conflict() const {
  return MakeError(reason::kArgumentConflict, absl::StrCat(path_, " is there already"),
                   {"--force replaces it", absl::StrCat(option_, " FILE writes elsewhere")});
}

std::string OutputFile::FreshName() const { return absl::StrCat(path_, ".part", getpid()); }

absl::Status OutputFile::Open() {
  const std::string folder = FolderOf(path_);
  // Readable, since /proc's link to it is what gives it a name.
  fd_.Reset(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (fd_) return absl::OkStatus();
  // File systems without unnamed files, and kernels that take the flag for O_DIRECTORY.
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) {
    part_ = FreshName();
    fd_.Reset(open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd_) return absl::OkStatus();
  }
  const int error = errno;
  part_.clear();
  return MakeError(reason::kArgumentInvalid,
                   std::string(ErrnoStatus(error, "make a file in", folder).message()),
                   {absl::StrCat(option_, " FILE writes elsewhere")});
}

absl::Status OutputFile::Append(absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(fd_.get(), data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(errno, "write", path_);
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (fsync(fd_.get()) != 0) return WriteError(errno, "write", path_);
  if (part_.empty()) {
    const std::string source = absl::StrCat("/proc/self/fd/", fd_.get());
    const std::string target = force_ ? FreshName() : path_;
    if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return errno == EEXIST && !force_ ? Conflict() : WriteError(errno, "write", target);
    }
    if (!force_) {
      fd_.Reset();
      return absl::OkStatus();
    }
    part_ = target;
  }
  const unsigned flags = force_ ? 0 : RENAME_NOREPLACE;
  int renamed = renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), flags);
  if (renamed != 0 && errno == EINVAL && !force_) {
    // No such rename here: a link refuses to replace as well.
    renamed = link(part_.c_str(), path_.c_str());
    if (renamed == 0) unlink(part_.c_str());
  }
  if (renamed != 0) return errno == EEXIST ? Conflict() : WriteError(errno, "rename", part_);
  part_.clear();
  fd_.Reset();
  return absl::OkStatus();
}

}  // namespace libreyolo::client
