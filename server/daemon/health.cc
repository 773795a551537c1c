#include "server/daemon/health.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/file.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

std::vector<std::pair<std::string, bool>> ServingOf(const HealthFacts& facts) {
  return {{"", !facts.draining},
          {"libreyolo.profile.v1.JobService", facts.accepts_jobs()},
          {"libreyolo.profile.v1.ProfileService", !facts.draining},
          {"libreyolo.profile.v1.DeviceService", !facts.draining},
          {"libreyolo.profile.v1.ServerService", !facts.draining}};
}

absl::Status ProbeStore(const std::string& state_dir) {
  // More than a file system keeps beside a name, so that a full disk shows.
  static const std::string kContent(8192, '\n');
  // A name of its own: several may probe at once.
  std::string path = state_dir + "/probe-XXXXXX";
  const UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "make a file in", state_dir);
  const ssize_t written = write(fd.get(), kContent.data(), kContent.size());
  const int error = written < 0                                        ? errno
                    : written != static_cast<ssize_t>(kContent.size()) ? ENOSPC
                                                                       : 0;
  const bool is_safe = error == 0 && fsync(fd.get()) == 0;
  const int sync_error = errno;
  unlink(path.c_str());
  if (error != 0) return ErrnoStatus(error, "write to", state_dir);
  return is_safe ? absl::OkStatus() : ErrnoStatus(sync_error, "write to the disk of", state_dir);
}

}  // namespace libreyolo::daemon
