#include "server/daemon/store/layout.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/confined_path.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/relative_path.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

constexpr char kDefaultWorkspace[] = "default";
constexpr size_t kMaxProjectBytes = 1024;
constexpr std::ptrdiff_t kMaxProjectDepth = 32;

bool IsWorkspaceName(const std::string& name) {
  if (name.empty() || name.size() > 64 || name[0] == '.') return false;
  for (char c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!plain) return false;
  }
  return true;
}

}  // namespace

std::string StagingDir(const std::string& project_dir, const std::string& job_id) {
  return absl::StrCat(project_dir, "/.staging/", job_id);
}

absl::StatusOr<std::string> Layout::WorkspaceRoot(const std::string& workspace) const {
  if (config_.local) {
    if (workspace.empty()) return config_.workspace_root;
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat("a local daemon has no workspace called \"", workspace, "\""),
                     {"leave the workspace out: it is the folder itself"});
  }
  const std::string name = workspace.empty() ? kDefaultWorkspace : workspace;
  if (!IsWorkspaceName(name)) {
    return MakeError(reason::kArgumentInvalid, absl::StrCat("\"", name, "\" is no workspace name"),
                     {"names have up to 64 of a-z 0-9 . _ - and do not start with a dot"});
  }
  return absl::StrCat(config_.workspace_root, "/", name);
}

absl::StatusOr<std::string> Layout::ResolveExisting(const std::string& workspace,
                                                    const std::string& relative) const {
  LY_ASSIGN_OR_RETURN(const std::string root, WorkspaceRoot(workspace));
  LY_ASSIGN_OR_RETURN(const std::string clean, NormalizeRelativePath(relative));
  if (clean.empty()) return root;
  return ResolveConfined(root, clean, link_rule());
}

absl::StatusOr<std::string> Layout::ProjectDir(const std::string& workspace,
                                               const std::string& project) const {
  LY_ASSIGN_OR_RETURN(const std::string root, WorkspaceRoot(workspace));
  LY_ASSIGN_OR_RETURN(const std::string clean, NormalizeRelativePath(project));
  if (clean.size() > kMaxProjectBytes ||
      std::count(clean.begin(), clean.end(), '/') >= kMaxProjectDepth) {
    return MakeError(reason::kPathRefused,
                     absl::StrCat("the project's path is longer than ", kMaxProjectBytes,
                                  " bytes or deeper than ", kMaxProjectDepth, " folders"),
                     {"choose a shorter --project"});
  }
  // The nearest part that exists must not lead out of the workspace.
  std::filesystem::path part(clean);
  while (!part.empty()) {
    const auto existing = ResolveExisting(workspace, part.string());
    if (existing.ok()) break;
    if (HasReason(existing.status(), reason::kPathRefused)) return existing.status();
    part = part.parent_path();
  }
  return absl::StrCat(root, "/", clean);
}

absl::Status Layout::CheckProjectWritable(const std::string& workspace,
                                          const std::string& project) const {
  LY_ASSIGN_OR_RETURN(const std::string folder, ProjectDir(workspace, project));
  std::filesystem::path part(folder);
  struct stat info;
  // Not through symlinks: a broken one is there, and keeps a folder of its name from being made.
  while (part.has_relative_path() && lstat(part.c_str(), &info) != 0 &&
         (errno == ENOENT || errno == ENOTDIR))
    part = part.parent_path();
  const auto refuse = [&](const std::string& why) {
    return MakeError(reason::kProjectNotWritable,
                     absl::StrCat("results cannot be written below \"", project,
                                  "\": ", part.string(), ": ", why),
                     {"choose another folder with --project", "make that folder writable"});
  };
  if (stat(part.c_str(), &info) != 0) {
    const int error = errno;
    const bool link = lstat(part.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
    return refuse(link ? absl::StrCat("is a broken symlink: ", strerror(error)) : strerror(error));
  }
  if (!S_ISDIR(info.st_mode)) return refuse("is not a folder");
  if (faccessat(AT_FDCWD, part.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return refuse(strerror(errno));
  return absl::OkStatus();
}

}  // namespace libreyolo::daemon
