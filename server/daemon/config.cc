#include "server/daemon/config.h"

#include <unistd.h>

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

constexpr char kHelp[] =
    R"(libreyolod: profiles YOLO models on this host's devices, for clients that call over gRPC.

usage: libreyolod --listen ADDRESS --store DIR [flags]

  --listen ADDRESS       unix:PATH, or HOST:PORT on a loopback address
  --store DIR            where jobs, profiles and logs are kept; one daemon a store
  --weights-dir DIR      also look for weights here; may be given several times
  --datasets-dir DIR     look for datasets here; may be given several times ($LIBREYOLO_DATASETS_DIR, ~/datasets)
  --cache DIR            downloads ($XDG_CACHE_HOME/libreyolo)
  --hub URL              where weights are downloaded from
  --log FILE             log there instead of stderr
  --worker PATH          the worker executable (libreyolo-worker beside this one)
  --lock-dir DIR         where device locks stand (/run/lock)
  --heartbeat SECONDS    a worker that is silent for so long is killed (60)
  --local                serve one user's folder; used by the libreyolo client
  --workspace DIR        with --local: the folder
  --state DIR            with --local: where its index and log are
  --idle-timeout SECONDS with --local: end after so long without calls or jobs (900)
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
  LY_ASSIGN_OR_RETURN(config.trace_limits, ParseTraceLimits(limits));
  LY_RETURN_IF_ERROR(FillDefaults(config, store, state));
  return config;
}

}  // namespace libreyolo::daemon
