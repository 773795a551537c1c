// Which files a process may open, held by the kernel (Landlock, Linux 5.13 and later): what is not
// granted is denied, whatever the account may. With it come, by the kernel's age: no TCP (6.7), no
// signals to processes outside and no abstract sockets of theirs (6.12); and in any case no
// ptrace of them, and no mounts. Sockets that have a path stay within reach: of those take
// call_filter.h and door.h care.
// Source: the kernel's Documentation/userspace-api/landlock.rst.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

// Paths are of files, or of folders with all that is below; what is not there is left out.
struct FileGrants {
  std::vector<std::string> read;  // and run
  // Likewise, but for what is `hidden`. Other grants hold also within that.
  std::vector<std::string> read_around;
  std::vector<std::string> hidden;
  std::vector<std::string> devices;  // read, written, and asked for what they alone can do
  std::vector<std::string> write;    // read, written; files and folders made and removed
  // Likewise, but no folders are made: what is there stays flat. Links are made nowhere.
  std::vector<std::string> write_files;
};

class FileFence {
 public:
  static bool IsSupported();
  // Unimplemented where the kernel has no Landlock.
  static absl::StatusOr<FileFence> Make(const FileGrants& grants, bool allow_network);

  // For EnterFileFence.
  int fd() const { return ruleset_.get(); }
  uint64_t access_to_itself() const { return access_to_itself_; }

 private:
  FileFence(UniqueFd ruleset, uint64_t access_to_itself)
      : ruleset_(std::move(ruleset)), access_to_itself_(access_to_itself) {}

  UniqueFd ruleset_;
  uint64_t access_to_itself_;
};

// Puts the calling thread behind the fence, and what it starts from now on; there is no way back.
// It may write to /proc/self/clear_refs, which costs it a descriptor. Wants PR_SET_NO_NEW_PRIVS
// first. 0 or an errno. Safe between fork and exec.
int EnterFileFence(int fence_fd, uint64_t access_to_itself);

}  // namespace libreyolo::daemon
