#include "server/daemon/health.h"

#include <unistd.h>

#include "common/base/file.h"
#include "common/base/status_macros.h"

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
  const std::string path = state_dir + "/probe";
  LY_RETURN_IF_ERROR(WriteFileAtomically(path, kContent));
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace libreyolo::daemon
