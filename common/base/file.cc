#include "common/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace libreyolo {
namespace {

absl::Status WriteAll(int fd, absl::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), data.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path);
    }
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view operation, absl::string_view path) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      code = absl::StatusCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = absl::StatusCode::kPermissionDenied;
      break;
    case ENOSPC:
    case EDQUOT:
      code = absl::StatusCode::kResourceExhausted;
      break;
    default:
      break;
  }
  return absl::Status(code, absl::StrCat("cannot ", operation, " ", path, ": ", strerror(error)));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes) {
  // A pipe that nobody writes to would hold up the thread for good; for files the flag means
  // nothing.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "read", path);
  if (S_ISDIR(info.st_mode)) return ErrnoStatus(EISDIR, "read", path);
  if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a pipe or a socket, not a file"));
  }
  std::string data;
  if (info.st_size > 0)
    data.reserve(static_cast<size_t>(std::min<int64_t>(info.st_size, limit_bytes)));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read", path);
    }
    if (got == 0) return data;
    if (static_cast<int64_t>(data.size()) + got > limit_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " is larger than the limit of ", limit_bytes, " bytes"));
    }
    data.append(buffer, static_cast<size_t>(got));
  }
}

absl::Status WriteFile(const std::string& path, absl::string_view data) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return ErrnoStatus(errno, "open", path);
  LY_RETURN_IF_ERROR(WriteAll(fd.get(), data, path));
  if (close(fd.Release()) != 0) return ErrnoStatus(errno, "write", path);
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view data) {
  const std::string temporary = absl::StrCat(path, ".tmp", getpid());
  absl::Status status = WriteFile(temporary, data);
  if (status.ok()) status = FsyncPath(temporary);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, "rename", temporary);
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::Status MakeDirectories(const std::string& path, unsigned mode) {
  const std::filesystem::path whole(path);
  std::filesystem::path part;
  for (const auto& component : whole) {
    part /= component;
    if (mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      // An existing parent on a read-only or unsearchable file system answers with another errno
      // than EEXIST.
      struct stat info;
      const int error = errno;
      if (stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        return ErrnoStatus(error, "make folder", part.string());
      }
    }
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "make folder", path);
  if (!S_ISDIR(info.st_mode)) return ErrnoStatus(ENOTDIR, "make folder", path);
  return absl::OkStatus();
}

absl::Status FsyncPath(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "open", path);
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, "fsync", path);
  return absl::OkStatus();
}

std::string TailOfFile(const std::string& path, int64_t max_bytes) {
  // Waits for nobody, should it be a pipe or leased.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) != 0) return {};
  const int64_t start = std::max<int64_t>(0, info.st_size - max_bytes);
  std::string data(static_cast<size_t>(info.st_size - start), '\0');
  const ssize_t got = pread(fd.get(), data.data(), data.size(), start);
  data.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return data;
}

}  // namespace libreyolo
