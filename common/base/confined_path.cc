#include "common/base/confined_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo {
namespace {

absl::Status CheckLinkOwners(const std::string& root, const std::string& relative) {
  std::filesystem::path path(root);
  for (const auto& part : std::filesystem::path(relative)) {
    path /= part;
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "open", relative);
    if (S_ISLNK(info.st_mode) && info.st_uid != geteuid() && info.st_uid != 0) {
      return MakeError(
          reason::kPathRefused,
          absl::StrCat("the path \"", relative, "\" goes through a symlink of another ",
                       "user: ", path.string()),
          {"name the file itself, or make the symlink yours"});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ResolveConfined(const std::string& root, const std::string& relative,
                                            LinkRule rule) {
  const std::string path = relative.empty() ? root : absl::StrCat(root, "/", relative);
  if (rule == LinkRule::kOwnersMayLeave) LY_RETURN_IF_ERROR(CheckLinkOwners(root, relative));
  char real[PATH_MAX];
  if (realpath(path.c_str(), real) == nullptr) return ErrnoStatus(errno, "open", relative);
  if (rule == LinkRule::kOwnersMayLeave) return path;
  char real_root[PATH_MAX];
  if (realpath(root.c_str(), real_root) == nullptr) return ErrnoStatus(errno, "open", root);
  const std::string found(real);
  if (found != real_root && !absl::StartsWith(found, absl::StrCat(real_root, "/"))) {
    return MakeError(reason::kPathRefused,
                     absl::StrCat("the path \"", relative, "\" leads out of the workspace"));
  }
  return found;
}

}  // namespace libreyolo
