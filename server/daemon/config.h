// How a daemon is set up: by flags, by a configuration file, by defaults, in that order. Which flag
// and which field of the file set which member, settings.h tells.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/trace/read_limits.h"
#include "server/daemon/access/tls.h"
#include "server/daemon/launch/worker_limits.h"
#include "server/daemon/store/retention_limits.h"

namespace libreyolo::daemon {

struct Config {
  std::vector<std::string> listen;  // "unix:PATH", "127.0.0.1:7430"
  std::string store;                // as given
  std::string state;                // local: as given
  std::string state_dir;            // one of the two: index, logs, blobs
  bool local = false;               // one user's daemon for one folder; ends when idle
  std::string workspace;            // local: that folder; else <state>/workspaces
  absl::Duration idle_timeout = absl::Minutes(15);  // local only
  std::string worker_path;  // default: libreyolo-worker beside this executable
  std::string lock_dir;     // device locks; default: the system's lock folder
  std::vector<std::string> weights_folders;
  // Default: $LIBREYOLO_DATASETS_DIR, else ~/datasets.
  std::vector<std::string> datasets_folders;
  std::string cache_dir;  // default: $XDG_CACHE_HOME/libreyolo
  std::string hub_base_url;
  std::string log_path;           // empty: stderr
  std::string metrics_listen;     // HOST:PORT; empty: no metrics
  bool metrics_anywhere = false;  // which may be off loopback
  absl::Duration heartbeat = absl::Seconds(60);

  bool worker_network = false;    // workers keep the host's network
  bool worker_children = false;   // may start processes
  bool worker_all_files = false;  // and the daemon's files
  std::vector<std::string> worker_read;
  WorkerLimits worker_limits;
  unsigned socket_mode = 0600;  // of unix sockets
  std::string socket_group;
  std::string socket_role = "submitter";  // a Role's name or "none"
  int64_t max_connections = 1000;
  int64_t max_connections_per_peer = 256;
  int64_t max_calls_per_user = 2000;
  absl::Duration stall_timeout = absl::Minutes(1);
  absl::Duration handshake_timeout = absl::Seconds(20);
  absl::Duration keepalive = absl::Minutes(1);
  absl::Duration connection_idle = absl::Minutes(10);
  absl::Duration connection_age = absl::Hours(1);
  int64_t min_free_bytes = int64_t{256} << 20;
  TlsFiles tls;            // without a certificate: no TLS
  std::string users_path;  // empty: nobody is told apart by a token
  // Of each user; 0: no limit. Defaults where users are told apart: 20 jobs, 50 GiB.
  int64_t max_queued_per_user = 0;
  int64_t max_stored_bytes_per_user = 0;
  int64_t max_job_bytes_per_user = int64_t{256} << 20;  // records and logs of ended jobs; 0: any
  int64_t max_upload_bytes = int64_t{4} << 30;          // of one file
  RetentionLimits retention;
  trace::ReadLimits trace_limits;

  // There is a file of users, or an authority for their certificates.
  bool has_credentials() const { return !users_path.empty() || !tls.client_ca.empty(); }
  // Other accounts than its own reach its unix sockets.
  bool admits_accounts() const { return socket_mode != 0600; }
  // Callers are told apart.
  bool has_users() const { return has_credentials() || admits_accounts(); }
};

// What a command line asks for.
struct CommandLine {
  Config config;
  std::string show;         // for --help, --version and --check-config: print this and end
  bool check_only = false;  // --check-config: `show` holds if the daemon could start
};

// Parses argv and the file that it may name. InvalidArgument with what is wrong, where, and the way
// out.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace libreyolo::daemon
