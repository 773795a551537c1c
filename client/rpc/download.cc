#include "client/rpc/download.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/relative_path.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace fs = std::filesystem;
namespace v1 = ::libreyolo::profile::v1;

constexpr int kAttempts = 4;

struct FileJob {
  const Server& server;
  const v1::ProfileInfo& profile;
  const v1::ProfileFile& file;
  const DownloadOptions& options;
  std::string target;
};

absl::Status Damaged(const FileJob& job, absl::string_view what) {
  return MakeError(reason::kDigestMismatch, absl::StrCat(job.file.name(), " ", what),
                   {"fetch it again"});
}

absl::Status WriteAll(int fd, absl::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t count = write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write", path);
    data.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Opens the part file for this fetch alone. One that an earlier fetch left is kept, to go on from.
absl::StatusOr<UniqueFd> OpenPart(const std::string& part) {
  UniqueFd fd(open(part.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return ErrnoStatus(errno, "open", part);
  struct stat ours, there;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || fstat(fd.get(), &ours) != 0 ||
      lstat(part.c_str(), &there) != 0 || ours.st_ino != there.st_ino) {
    return MakeError(reason::kBusy, absl::StrCat(part, " is being written by another fetch"),
                     {"wait for it to end", "-o DIR writes elsewhere"});
  }
  return fd;
}

// Appends what comes to the part file; the stream starts at the part's size.
absl::Status Receive(const FileJob& job, const std::string& part, int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "read", part);
  int64_t offset = info.st_size;
  v1::DownloadProfileRequest request;
  request.set_path(job.profile.path());
  request.set_file(job.file.name());
  request.set_offset(offset);
  grpc::ClientContext context;
  const auto reader =
      v1::ProfileService::NewStub(job.server.channel)->DownloadProfile(&context, request);
  v1::DownloadChunk chunk;
  absl::Status status;
  bool is_whole = false;
  while (status.ok() && reader->Read(&chunk)) {
    // A chunk in another place would be found by the digest, but only after all of the file.
    if (chunk.offset() != offset) {
      status = Damaged(
          job, absl::StrCat("came out of order: at byte ", chunk.offset(), " instead of ", offset));
    } else if (chunk.total_bytes() != job.file.size_bytes() ||
               offset + static_cast<int64_t>(chunk.data().size()) > job.file.size_bytes()) {
      status = Damaged(job, "was replaced on the server meanwhile");
    } else {
      status = WriteAll(fd, chunk.data(), part);
    }
    offset += static_cast<int64_t>(chunk.data().size());
    is_whole = offset == job.file.size_bytes();
    if (status.ok() && job.options.progress) {
      job.options.progress(job.file.name(), offset, chunk.total_bytes());
    }
  }
  if (!status.ok()) {
    context.TryCancel();
    (void)reader->Finish();
    return status;
  }
  status = rpc::FromGrpcStatus(reader->Finish());
  if (HasReason(status, reason::kArgumentOutOfRange)) {
    return Damaged(job, "became shorter on the server meanwhile");
  }
  LY_RETURN_IF_ERROR(status);
  return is_whole ? absl::OkStatus() : Damaged(job, "ended early");
}

// Until all of it is there, going on where a broken connection left it.
absl::Status ReceiveWhole(const FileJob& job, const std::string& part, int fd) {
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt));
    status = Receive(job, part, fd);
    if (!absl::IsUnavailable(status)) break;
  }
  LY_RETURN_IF_ERROR(status);
  LY_ASSIGN_OR_RETURN(const std::string digest, Sha256HexOfFile(part));
  if (digest == job.file.digest()) return absl::OkStatus();
  return Damaged(job, "arrived damaged or was replaced meanwhile");
}

// A server must not choose a name that means something to other programs, or to a terminal.
bool IsPlainName(absl::string_view name) {
  return !name.empty() && name.front() != '.' && !absl::StrContains(name, '/') &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

absl::Status Refused(const std::string& name) {
  return MakeError(reason::kPathRefused,
                   absl::StrCat("the server names a file \"", absl::CHexEscape(name),
                                "\", which is none of a profile's"));
}

absl::Status FetchFile(const FileJob& job) {
  if (access(job.target.c_str(), F_OK) == 0) {
    LY_ASSIGN_OR_RETURN(const std::string digest, Sha256HexOfFile(job.target));
    if (digest == job.file.digest()) return absl::OkStatus();
    if (!job.options.force) {
      return MakeError(reason::kArgumentConflict,
                       absl::StrCat(job.target, " is there already and is a different file"),
                       {"--force replaces it", "-o DIR writes elsewhere"});
    }
  }
  const std::string part = job.target + ".part";
  LY_ASSIGN_OR_RETURN(const UniqueFd fd, OpenPart(part));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "read", part);
  const bool resumes = info.st_size > 0 && info.st_size <= job.file.size_bytes();
  if (!resumes && ftruncate(fd.get(), 0) != 0) return ErrnoStatus(errno, "truncate", part);
  absl::Status status = ReceiveWhole(job, part, fd.get());
  if (HasReason(status, reason::kDigestMismatch) && resumes) {
    // The part was of another file of that name: an earlier result.
    if (ftruncate(fd.get(), 0) != 0) return ErrnoStatus(errno, "truncate", part);
    status = ReceiveWhole(job, part, fd.get());
  }
  if (HasReason(status, reason::kDigestMismatch)) unlink(part.c_str());
  LY_RETURN_IF_ERROR(status);
  if (rename(part.c_str(), job.target.c_str()) != 0) return ErrnoStatus(errno, "rename", part);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DownloadProfile(const Server& server,
                                                         const v1::ProfileInfo& profile,
                                                         const DownloadOptions& options) {
  // A server's word for where to write is checked like a client's.
  LY_ASSIGN_OR_RETURN(const std::string relative, NormalizeRelativePath(profile.path()));
  for (const absl::string_view part : absl::StrSplit(relative, '/')) {
    if (!IsPlainName(part)) return Refused(profile.path());
  }
  const fs::path folder = fs::path(options.folder) / fs::path(relative).parent_path();
  LY_RETURN_IF_ERROR(MakeDirectories(folder.string()));
  std::vector<std::string> written;
  for (const v1::ProfileFile& file : profile.files()) {
    const bool is_result = absl::EndsWith(file.name(), ".json") ||
                           absl::EndsWith(file.name(), ".json.gz") ||
                           absl::EndsWith(file.name(), ".json.zst");
    if (!is_result || !IsPlainName(file.name())) return Refused(file.name());
    const std::string target = (folder / file.name()).lexically_normal().string();
    LY_RETURN_IF_ERROR(FetchFile({server, profile, file, options, target}));
    written.push_back(target);
  }
  return written;
}

}  // namespace libreyolo::client
