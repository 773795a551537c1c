#include "server/daemon/store/disk_room.h"

#include <sys/statvfs.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::daemon {
namespace {
constexpr fsfilcnt_t kFilesKept = 100;  // one in a hundred
}  // namespace

absl::Status CheckDiskRoom(const std::string& folder, int64_t need_bytes, int64_t min_free_bytes,
                           absl::string_view what) {
  struct statvfs info;
  std::filesystem::path path(folder);
  while (statvfs(path.c_str(), &info) != 0) {
    if (!path.has_relative_path()) return absl::OkStatus();
    path = path.parent_path();
  }
  const int64_t free = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  // A disk that is full of files takes none however much room it has; some do not count them.
  if (info.f_files > 0 && info.f_favail < info.f_files / kFilesKept) {
    return MakeError(reason::kDiskFull,
                     absl::StrCat("the server's disk has room for ", info.f_favail, " more files; ",
                                  what, " must leave ", info.f_files / kFilesKept),
                     {"remove results or uploads from the server that nobody needs"},
                     {{"free_files", absl::StrCat(info.f_favail)}});
  }
  // Subtracted, since the sum of what a client announces could overflow.
  if (need_bytes <= free - min_free_bytes) return absl::OkStatus();
  return MakeError(reason::kDiskFull,
                   absl::StrCat("the server's disk has ", free, " bytes left; ", what,
                                need_bytes > 0 ? absl::StrCat(" of ", need_bytes, " bytes") : "",
                                " must leave ", min_free_bytes),
                   {"remove results or uploads from the server that nobody needs",
                    "the server's admin can lower --min-free"},
                   {{"free_bytes", absl::StrCat(free)},
                    {"need_bytes", absl::StrCat(need_bytes)},
                    {"min_free_bytes", absl::StrCat(min_free_bytes)}});
}

}  // namespace libreyolo::daemon
