#include "server/daemon/config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "server/daemon/trace_limits.h"

namespace libreyolo::daemon {
namespace {

constexpr int64_t kMaxQueuedPerUser = 20;
constexpr int64_t kMaxStoredBytesPerUser = int64_t{50} << 30;
constexpr int64_t kMaxCount = 1'000'000;

constexpr char kHelp[] =
    R"(libreyolod: profiles YOLO models on this host's devices, for clients that call over gRPC.

usage: libreyolod --listen ADDRESS --store DIR [flags]

  --listen ADDRESS       unix:PATH or HOST:PORT; off loopback only with --tls-cert
  --store DIR            where jobs, profiles and logs are kept; one daemon a store
  --weights-dir DIR      also look for weights here; may be given several times
  --datasets-dir DIR     look for datasets here; may be given several times ($LIBREYOLO_DATASETS_DIR, ~/datasets)
  --cache DIR            downloads ($XDG_CACHE_HOME/libreyolo)
  --hub URL              where weights are downloaded from
  --log FILE             log there instead of stderr
  --worker PATH          the worker executable (libreyolo-worker beside this one)
  --lock-dir DIR         where device locks stand (/run/lock)
  --heartbeat SECONDS    a worker that is silent for so long is killed (60)
  --worker-network       leave the network to workers, which need none
  --socket-mode MODE     who may connect to a unix socket, in octal: 600 (its user), 660 (its group too)
  --local                serve one user's folder; used by the libreyolo client
  --workspace DIR        with --local: the folder
  --state DIR            with --local: where its index and log are
  --idle-timeout SECONDS with --local: end after so long without calls or jobs (900)
  --tls-cert FILE        PEM chain: serve TLS 1.3; read again when it changes
  --tls-key FILE         its private key, unreadable for others
  --tls-client-ca FILE   who signs client certificates; their common name is the user's
  --tokens FILE          who may come in: lines of principal, role (viewer, submitter, admin) and the
                         SHA-256 of a token, or the word cert; mode 600; read again when it changes
  --max-queued-per-user N      jobs of one user that may wait (20 where users are told apart; 0: any)
  --max-stored-per-user BYTES  of one user's uploads and results (50 GiB likewise; 0: any)
  --max-upload BYTES           of one file (4 GiB)
  --max-trace-bytes BYTES      of a trace that is read, unpacked (16 GiB; 0 lifts this and each of the next)
  --max-trace-events N         of its events (200 million)
  --max-trace-memory BYTES     of what is kept of it while it is analysed (8 GiB)
  --max-trace-value BYTES      of one event (64 MiB); $LIBREYOLO_MAX_TRACE_BYTES, ..._EVENTS, ..._MEMORY
                               and ..._VALUE stand in for missing flags
  --version, --help

SIGTERM drains: no new jobs, running ones end; a second one cancels them.
)";

std::string EnvironmentOr(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

absl::StatusOr<absl::Duration> ParseSeconds(const std::string& flag, const std::string& text) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds > 0) || seconds > 1e9) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " takes a number of seconds, not \"", text, "\""));
  }
  return absl::Seconds(seconds);
}

absl::StatusOr<int64_t> ParseCount(const std::string& flag, const std::string& text) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " takes a whole number from 0 on, not \"", text, "\""));
  }
  return count;
}

absl::StatusOr<unsigned> ParseSocketMode(const std::string& text) {
  if (text == "600" || text == "0600") return 0600;
  if (text == "660" || text == "0660") return 0660;
  return absl::InvalidArgumentError(
      absl::StrCat("--socket-mode is 600 or 660, not \"", text, "\""));
}

absl::Status CheckAccess(const Config& config) {
  const TlsFiles& tls = config.tls;
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together");
  }
  if (!tls.client_ca.empty() && tls.certificate.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (!tls.certificate.empty() && absl::StartsWith(config.listen, "unix:")) {
    return absl::InvalidArgumentError("--tls-cert is for a HOST:PORT; a unix socket has no TLS");
  }
  if (!tls.certificate.empty() && !config.has_users()) {
    return absl::InvalidArgumentError(
        "with --tls-cert anybody on the network could run jobs: say who may come in with --tokens "
        "or --tls-client-ca");
  }
  if (config.local && config.has_users()) {
    return absl::InvalidArgumentError("--local serves one user and takes no --tokens");
  }
  return absl::OkStatus();
}

absl::Status FillDefaults(Config& config, const std::string& store, const std::string& state) {
  if (config.listen.empty()) {
    return absl::InvalidArgumentError(
        "--listen is missing: say where clients connect, such as --listen 127.0.0.1:7430 or "
        "--listen unix:PATH; see libreyolod --help");
  }
  if (config.local) {
    if (state.empty() || config.workspace.empty()) {
      return absl::InvalidArgumentError("--local needs --workspace and --state");
    }
    config.state_dir = state;
    if (config.log_path.empty()) config.log_path = state + "/daemon.log";
  } else {
    if (store.empty()) {
      return absl::InvalidArgumentError(
          "--store is missing: name the folder that keeps jobs and profiles, such as --store "
          "~/libreyolo-store; see libreyolod --help");
    }
    config.state_dir = store;
    config.workspace = store + "/workspaces";
  }
  if (config.cache_dir.empty()) {
    config.cache_dir =
        EnvironmentOr("XDG_CACHE_HOME", EnvironmentOr("HOME", "/var/cache") + "/.cache") +
        "/libreyolo";
  }
  if (config.datasets_folders.empty()) {
    config.datasets_folders.push_back(
        EnvironmentOr("LIBREYOLO_DATASETS_DIR", EnvironmentOr("HOME", "/var") + "/datasets"));
  }
  if (config.lock_dir.empty())
    config.lock_dir = access("/run/lock", W_OK) == 0 ? "/run/lock" : "/tmp";
  if (config.hub_base_url.empty()) config.hub_base_url = "https://huggingface.co/LibreYOLO";
  if (config.worker_path.empty()) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    config.worker_path = (self.parent_path() / "libreyolo-worker").string();
  }
  for (std::string* path :
       {&config.state_dir, &config.workspace, &config.cache_dir, &config.worker_path}) {
    *path = std::filesystem::absolute(*path).lexically_normal().string();
    if (path->size() > 1 && path->back() == '/') path->pop_back();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Config> ParseCommandLine(int argc, char** argv, std::string* show) {
  Config config;
  std::string store;
  std::string state;
  std::string idle;
  std::string heartbeat;
  std::string socket_mode;
  std::map<std::string, std::string> counts;
  std::map<std::string, std::string> limits;
  const std::map<std::string, std::function<void(std::string)>> flags = {
      {"--listen", [&](std::string v) { config.listen = std::move(v); }},
      {"--store", [&](std::string v) { store = std::move(v); }},
      {"--state", [&](std::string v) { state = std::move(v); }},
      {"--workspace", [&](std::string v) { config.workspace = std::move(v); }},
      {"--weights-dir", [&](std::string v) { config.weights_folders.push_back(std::move(v)); }},
      {"--datasets-dir", [&](std::string v) { config.datasets_folders.push_back(std::move(v)); }},
      {"--cache", [&](std::string v) { config.cache_dir = std::move(v); }},
      {"--hub", [&](std::string v) { config.hub_base_url = std::move(v); }},
      {"--log", [&](std::string v) { config.log_path = std::move(v); }},
      {"--worker", [&](std::string v) { config.worker_path = std::move(v); }},
      {"--lock-dir", [&](std::string v) { config.lock_dir = std::move(v); }},
      {"--idle-timeout", [&](std::string v) { idle = std::move(v); }},
      {"--heartbeat", [&](std::string v) { heartbeat = std::move(v); }},
      {"--tls-cert", [&](std::string v) { config.tls.certificate = std::move(v); }},
      {"--tls-key", [&](std::string v) { config.tls.key = std::move(v); }},
      {"--tls-client-ca", [&](std::string v) { config.tls.client_ca = std::move(v); }},
      {"--tokens", [&](std::string v) { config.users_path = std::move(v); }},
      {"--max-queued-per-user", [&](std::string v) { counts["--max-queued-per-user"] = v; }},
      {"--max-stored-per-user", [&](std::string v) { counts["--max-stored-per-user"] = v; }},
      {"--socket-mode", [&](std::string v) { socket_mode = std::move(v); }},
      {"--max-upload", [&](std::string v) { counts["--max-upload"] = v; }},
      {trace::kMaxTraceBytesFlag, [&](std::string v) { limits[trace::kMaxTraceBytesFlag] = v; }},
      {trace::kMaxTraceEventsFlag, [&](std::string v) { limits[trace::kMaxTraceEventsFlag] = v; }},
      {trace::kMaxTraceMemoryFlag, [&](std::string v) { limits[trace::kMaxTraceMemoryFlag] = v; }},
      {trace::kMaxTraceValueFlag, [&](std::string v) { limits[trace::kMaxTraceValueFlag] = v; }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help" || word == "-h") {
      *show = kHelp;
      return config;
    }
    if (word == "--version") {
      *show = absl::StrCat("libreyolod ", Version(), " (", BuildId(), ")\n");
      return config;
    }
    if (word == "--worker-network") {
      config.worker_network = true;
      continue;
    }
    if (word == "--local") {
      config.local = true;
      continue;
    }
    const size_t equals = word.find('=');
    const auto flag = flags.find(word.substr(0, equals));
    if (flag == flags.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown argument \"", word, "\"; see libreyolod --help"));
    }
    if (equals != std::string::npos) {
      flag->second(word.substr(equals + 1));
    } else if (++i < argc) {
      flag->second(argv[i]);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(word, " needs a value"));
    }
  }
  if (!idle.empty()) {
    LY_ASSIGN_OR_RETURN(config.idle_timeout, ParseSeconds("--idle-timeout", idle));
  }
  if (!heartbeat.empty()) {
    LY_ASSIGN_OR_RETURN(config.heartbeat, ParseSeconds("--heartbeat", heartbeat));
  }
  if (!socket_mode.empty()) {
    LY_ASSIGN_OR_RETURN(config.socket_mode, ParseSocketMode(socket_mode));
  }
  if (config.has_users()) {
    config.max_queued_per_user = kMaxQueuedPerUser;
    config.max_stored_bytes_per_user = kMaxStoredBytesPerUser;
  }
  for (const auto& [flag, text] : counts) {
    LY_ASSIGN_OR_RETURN(const int64_t count, ParseCount(flag, text));
    if (flag == "--max-queued-per-user") config.max_queued_per_user = std::min(count, kMaxCount);
    if (flag == "--max-stored-per-user") config.max_stored_bytes_per_user = count;
    if (flag == "--max-upload") config.max_upload_bytes = count;
  }
  LY_ASSIGN_OR_RETURN(config.trace_limits, ParseTraceLimits(limits));
  LY_RETURN_IF_ERROR(FillDefaults(config, store, state));
  LY_RETURN_IF_ERROR(CheckAccess(config));
  return config;
}

}  // namespace libreyolo::daemon
