#include "client/rpc/download.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
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

// Appends what comes to the part file; the stream starts at the part's size.
absl::Status Receive(const FileJob& job, const std::string& part) {
  const UniqueFd fd(open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "open", part);
  int64_t offset = info.st_size;
  if (offset > job.file.size_bytes()) {
    if (ftruncate(fd.get(), 0) != 0) return ErrnoStatus(errno, "truncate", part);
    offset = 0;
  }
  v1::DownloadProfileRequest request;
  request.set_path(job.profile.path());
  request.set_file(job.file.name());
  request.set_offset(offset);
  grpc::ClientContext context;
  const auto reader =
      v1::ProfileService::NewStub(job.server.channel)->DownloadProfile(&context, request);
  v1::DownloadChunk chunk;
  while (reader->Read(&chunk)) {
    const std::string& data = chunk.data();
    if (write(fd.get(), data.data(), data.size()) != static_cast<ssize_t>(data.size())) {
      context.TryCancel();
      (void)reader->Finish();
      return ErrnoStatus(errno, "write", part);
    }
    offset += static_cast<int64_t>(data.size());
    if (job.options.progress) job.options.progress(job.file.name(), offset, chunk.total_bytes());
  }
  return rpc::FromGrpcStatus(reader->Finish());
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
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt));
    status = Receive(job, part);
    if (!absl::IsUnavailable(status)) break;
  }
  LY_RETURN_IF_ERROR(status);
  LY_ASSIGN_OR_RETURN(const std::string digest, Sha256HexOfFile(part));
  if (digest != job.file.digest()) {
    unlink(part.c_str());
    return MakeError(reason::kDigestMismatch,
                     absl::StrCat(job.file.name(), " arrived damaged or was replaced meanwhile"),
                     {"fetch it again"});
  }
  if (rename(part.c_str(), job.target.c_str()) != 0) return ErrnoStatus(errno, "rename", part);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DownloadProfile(const Server& server,
                                                         const v1::ProfileInfo& profile,
                                                         const DownloadOptions& options) {
  // A server's word for where to write is checked like a client's.
  LY_ASSIGN_OR_RETURN(const std::string relative, NormalizeRelativePath(profile.path()));
  const fs::path folder = fs::path(options.folder) / fs::path(relative).parent_path();
  LY_RETURN_IF_ERROR(MakeDirectories(folder.string()));
  std::vector<std::string> written;
  for (const v1::ProfileFile& file : profile.files()) {
    if (file.name().empty() || fs::path(file.name()).filename() != file.name() ||
        file.name() == "..") {
      return MakeError(reason::kPathRefused,
                       absl::StrCat("the server names a file \"", file.name(), "\""));
    }
    const std::string target = (folder / file.name()).lexically_normal().string();
    LY_RETURN_IF_ERROR(FetchFile({server, profile, file, options, target}));
    written.push_back(target);
  }
  return written;
}

}  // namespace libreyolo::client
