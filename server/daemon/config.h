// How a daemon is set up, from its command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/trace/read_limits.h"

namespace libreyolo::daemon {

struct Config {
  std::string listen;     // "unix:PATH", "127.0.0.1:7430"
  std::string state_dir;  // index, logs, blobs
  bool local = false;     // one user's daemon for one folder; ends when idle
  std::string workspace;  // local: that folder; else <state>/workspaces
  absl::Duration idle_timeout = absl::Minutes(15);  // local only
  std::string worker_path;  // default: libreyolo-worker beside this executable
  std::string lock_dir;     // device locks; default: the system's lock folder
  std::vector<std::string> weights_folders;
  // Default: $LIBREYOLO_DATASETS_DIR, else ~/datasets.
  std::vector<std::string> datasets_folders;
  std::string cache_dir;  // default: $XDG_CACHE_HOME/libreyolo
  std::string hub_base_url;
  std::string log_path;  // empty: stderr
  absl::Duration heartbeat = absl::Seconds(60);
  trace::ReadLimits trace_limits;
};

// Parses argv. InvalidArgument with what is wrong; `*show` is set to a text for --help and
// --version instead.
absl::StatusOr<Config> ParseCommandLine(int argc, char** argv, std::string* show);

}  // namespace libreyolo::daemon
