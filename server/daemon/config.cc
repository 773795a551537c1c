#include "server/daemon/config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "server/daemon/access/user_file.h"
#include "server/daemon/settings.h"
#include "server/daemon/trace_limits.h"

namespace libreyolo::daemon {
namespace {

constexpr int64_t kMaxQueuedPerUser = 20;
constexpr int64_t kMaxWorkerProcesses = 16'384;  // and threads
constexpr int64_t kMaxStoredBytesPerUser = int64_t{50} << 30;
constexpr int64_t kMaxCount = 1'000'000;

constexpr char kUsage[] =
    R"(libreyolod: profiles YOLO models on this host's devices, for clients that call over gRPC.

usage: libreyolod --listen ADDRESS --store DIR [flags]
       libreyolod --config FILE [flags]

)";
constexpr char kAfterFlags[] = R"(
A configuration file (protobuf's text format, as in /etc/libreyolo/libreyolod.textproto) has a field for each flag but
the last four; a flag wins over the file. SIGTERM drains: no new jobs, running ones end; a second one cancels them.
)";

struct OwnFlag {
  const char* name;
  const char* help;
};
constexpr OwnFlag kOwnFlags[] = {
    {"--config FILE", "settings from this file"},
    {"--check-config", "say what would hold and from where, and end: 0, or 2 when it cannot start"},
    {"--version", ""},
    {"--help", ""},
};

void AppendHelp(const std::string& names, absl::string_view help, std::string& out) {
  static constexpr size_t kColumn = 32;
  std::string line = absl::StrCat("  ", names);
  for (const absl::string_view text : absl::StrSplit(help, '\n')) {
    if (!text.empty()) line.resize(std::max(line.size() + 1, kColumn), ' ');
    absl::StrAppend(&out, line, text, "\n");
    line.clear();
  }
}

std::string HelpText() {
  std::string out = kUsage;
  for (const Setting& setting : Settings()) {
    AppendHelp(absl::StrCat(setting.flag, *setting.argument == '\0' ? "" : " ", setting.argument),
               setting.help, out);
  }
  for (const OwnFlag& flag : kOwnFlags) AppendHelp(flag.name, flag.help, out);
  return out + kAfterFlags;
}

std::string EnvironmentOr(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

absl::Status CheckAccess(const Config& config, const GivenSettings& given) {
  const TlsFiles& tls = config.tls;
  const auto refuse = [&](absl::string_view flag, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(given.Name(flag), why));
  };
  if (!tls.certificate.empty() && tls.key.empty())
    return refuse("--tls-cert", " needs --tls-key, the certificate's private key");
  if (tls.certificate.empty() && !tls.key.empty())
    return refuse("--tls-key", " needs --tls-cert, the certificate that it belongs to");
  if (!tls.client_ca.empty() && tls.certificate.empty())
    return refuse("--tls-client-ca", " needs --tls-cert and --tls-key");
  const bool has_ports =
      std::any_of(config.listen.begin(), config.listen.end(),
                  [](const std::string& address) { return !absl::StartsWith(address, "unix:"); });
  if (!tls.certificate.empty() && !has_ports)
    return refuse("--tls-cert", " is for a HOST:PORT; a unix socket has no TLS");
  if (!tls.certificate.empty() && !config.has_credentials()) {
    return refuse("--tls-cert",
                  " alone would let anybody on the network run jobs: say who may come in with "
                  "--tokens or --tls-client-ca");
  }
  if (config.local && config.has_users())
    return refuse("--local",
                  " serves one user and takes neither --tokens nor another --socket-mode");
  if (config.local && has_ports) return refuse("--local", " listens on a unix socket");
  if (config.admits_accounts() && has_ports && !config.has_credentials()) {
    return refuse(
        "--socket-mode",
        " tells the accounts of this host apart, but whoever takes the HOST:PORT would be "
        "admin: say who may come in there with --tokens or --tls-client-ca");
  }
  if (config.socket_role != "none" && !ParseRole(config.socket_role).has_value()) {
    return refuse("--socket-role", absl::StrCat(" takes viewer, submitter, admin or none, not \"",
                                                config.socket_role, "\""));
  }
  for (const auto& [flag, count] :
       {std::pair("--max-connections", config.max_connections),
        std::pair("--max-connections-per-peer", config.max_connections_per_peer),
        std::pair("--max-calls-per-user", config.max_calls_per_user)}) {
    if (count < 1 || count > kMaxCount)
      return refuse(flag, absl::StrCat(" takes 1 to ", kMaxCount, ", not ", count));
  }
  return absl::OkStatus();
}

absl::Status FillDefaults(Config& config) {
  if (config.listen.empty()) {
    return absl::InvalidArgumentError(
        "--listen is missing: say where clients connect, such as --listen 127.0.0.1:7430 or "
        "--listen unix:PATH; see libreyolod --help");
  }
  if (config.local) {
    if (config.state.empty() || config.workspace.empty()) {
      return absl::InvalidArgumentError("--local needs --workspace and --state");
    }
    config.state_dir = config.state;
    if (config.log_path.empty()) config.log_path = config.state + "/daemon.log";
  } else {
    if (config.store.empty()) {
      return absl::InvalidArgumentError(
          "--store is missing: name the folder that keeps jobs and profiles, such as --store "
          "~/libreyolo-store; see libreyolod --help");
    }
    config.state_dir = config.store;
    config.workspace = config.store + "/workspaces";
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

// Limits whose default depends on other settings, or that know a value beyond their range.
absl::Status FillLimits(Config& config, const GivenSettings& given) {
  if (!config.local && !given.Has("--worker-processes")) {
    config.worker_limits.processes = kMaxWorkerProcesses;
  }
  if (config.has_users()) {
    if (!given.Has("--max-queued-per-user")) config.max_queued_per_user = kMaxQueuedPerUser;
    if (!given.Has("--max-stored-per-user"))
      config.max_stored_bytes_per_user = kMaxStoredBytesPerUser;
  }
  config.max_queued_per_user = std::min(config.max_queued_per_user, kMaxCount);
  std::map<std::string, std::string> limits;
  for (const Setting& setting : Settings()) {
    if (!absl::StartsWith(setting.flag, "--max-trace-") || !given.Has(setting.flag)) continue;
    limits[setting.flag] = absl::StrCat(*std::get<int64_t*>(setting.slot(config)));
  }
  LY_ASSIGN_OR_RETURN(config.trace_limits, ParseTraceLimits(limits));
  return absl::OkStatus();
}

absl::Status UnknownFlag(const std::string& word) {
  std::vector<std::string> known;
  for (const Setting& setting : Settings()) known.emplace_back(setting.flag);
  for (const OwnFlag& flag : kOwnFlags)
    known.push_back(std::vector<std::string>(absl::StrSplit(flag.name, ' ')).front());
  return absl::InvalidArgumentError(absl::StrCat("unknown argument \"", word, "\"; the nearest is ",
                                                 NearestName(word, known),
                                                 "; see libreyolod --help"));
}

// What stands on the command line: settings into `given`, the rest into the result.
struct Words {
  std::string show;
  std::string config_path;
  bool check = false;
};

absl::StatusOr<Words> ReadWords(int argc, const char* const* argv, GivenSettings& given) {
  Words words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help" || word == "-h") {
      words.show = HelpText();
      return words;
    }
    if (word == "--version") {
      words.show = absl::StrCat("libreyolod ", Version(), " (", BuildId(), ")\n");
      return words;
    }
    if (word == "--check-config") {
      words.check = true;
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto settings = Settings();
    const auto setting = std::find_if(settings.begin(), settings.end(),
                                      [&](const Setting& s) { return name == s.flag; });
    const bool is_config = name == "--config";
    if (setting == settings.end() && !is_config) return UnknownFlag(name);
    std::string value = "true";
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (is_config || *setting->argument != '\0') {
      if (++i == argc)
        return absl::InvalidArgumentError(absl::StrCat(word, " needs a value: ", word, " ",
                                                       is_config ? "FILE" : setting->argument));
      value = argv[i];
    }
    if (is_config) {
      if (!words.config_path.empty())
        return absl::InvalidArgumentError("--config may be given once");
      words.config_path = value;
    } else {
      LY_RETURN_IF_ERROR(given.TakeFlag(*setting, value));
    }
  }
  return words;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine line;
  GivenSettings given;
  LY_ASSIGN_OR_RETURN(const Words words, ReadWords(argc, argv, given));
  line.show = words.show;
  if (!line.show.empty()) return line;
  if (!words.config_path.empty()) LY_RETURN_IF_ERROR(given.TakeFile(words.config_path));
  LY_RETURN_IF_ERROR(given.Apply(line.config));
  LY_RETURN_IF_ERROR(FillLimits(line.config, given));
  LY_RETURN_IF_ERROR(FillDefaults(line.config));
  LY_RETURN_IF_ERROR(CheckAccess(line.config, given));
  line.check_only = words.check;
  if (words.check) line.show = given.Describe(line.config);
  return line;
}

}  // namespace libreyolo::daemon
