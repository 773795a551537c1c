#include "server/daemon/diagnosis.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/unique_fd.h"
#include "common/base/version.h"
#include "server/daemon/access/tls.h"
#include "server/daemon/access/user_file.h"
#include "server/daemon/health.h"
#include "server/daemon/launch/file_fence.h"

extern char** environ;

namespace libreyolo::daemon {
namespace {

using Health = Finding::Health;

// A trace of a long training takes about this much while it is written and analysed.
constexpr int64_t kLittleDiskBytes = int64_t{2} << 30;
constexpr int64_t kNoDiskBytes = int64_t{64} << 20;
constexpr absl::Duration kSoon = absl::Hours(14 * 24);
// LibTorch alone takes a second or two to load.
constexpr absl::Duration kWorkerPatience = absl::Seconds(20);
constexpr size_t kMaxAnswerBytes = 16 << 10;

Finding Ok(std::string check, std::string text) {
  return {std::move(check), Health::kOk, std::move(text), {}};
}
Finding Warn(std::string check, std::string text, std::vector<std::string> hints) {
  return {std::move(check), Health::kWarning, std::move(text), std::move(hints)};
}
Finding Failed(std::string check, std::string text, std::vector<std::string> hints) {
  return {std::move(check), Health::kFailed, std::move(text), std::move(hints)};
}

Finding CheckStore(const Config& config) {
  const absl::Status status = ProbeStore(config.state_dir);
  if (!status.ok()) {
    return Failed("store", absl::StrCat(config.state_dir, ": ", status.message()),
                  {"make room on its disk, or give the folder to the account that runs libreyolod",
                   "jobs are refused until a file can be written there; readers work"});
  }
  struct stat info;
  if (stat(config.state_dir.c_str(), &info) == 0 && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Warn("store", absl::StrCat(config.state_dir, " can be written to by other accounts"),
                {absl::StrCat("chmod go-w ", config.state_dir)});
  }
  return Ok("store", absl::StrCat(config.state_dir, " can be written to"));
}

Finding CheckDisk(const char* check, const std::string& folder) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) {
    // A cache is made when the first download comes.
    if (errno == ENOENT) return Ok(check, absl::StrCat(folder, " is not there yet"));
    return Failed(check, absl::StrCat(folder, ": ", strerror(errno)),
                  {"let the account that runs libreyolod enter the folder"});
  }
  const int64_t bytes = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  const std::string text = absl::StrCat(folder, ": ", bytes >> 20, " MiB free");
  const std::vector<std::string> hints = {"make room, or name another folder in the settings",
                                          "libreyolod --check-config says which settings hold"};
  if (bytes < kNoDiskBytes) return Failed(check, text, hints);
  return bytes < kLittleDiskBytes ? Warn(check, text, hints) : Ok(check, text);
}

Finding CheckLocks(const Config& config) {
  if (access(config.lock_dir.c_str(), W_OK | X_OK) == 0)
    return Ok("locks", absl::StrCat(config.lock_dir, " can be written to"));
  return Failed("locks", absl::StrCat(config.lock_dir, ": ", strerror(errno)),
                {"let the account that runs libreyolod write there, or name a folder in --lock-dir "
                 "that all daemons of the host share"});
}

void CheckFolders(const char* check, const std::vector<std::string>& folders, bool is_asked_for,
                  std::vector<Finding>& out) {
  for (const std::string& folder : folders) {
    if (access(folder.c_str(), R_OK | X_OK) == 0) {
      out.push_back(Ok(check, absl::StrCat(folder, " can be read")));
    } else if (is_asked_for) {
      out.push_back(Warn(check, absl::StrCat(folder, ": ", strerror(errno)),
                         {"make the folder, let the account that runs libreyolod read it, or take "
                          "it out of the settings"}));
    }
  }
}

void CheckTls(const Config& config, absl::Time now, std::vector<Finding>& out) {
  if (config.tls.certificate.empty()) return;
  const absl::Status usable = CheckTlsFiles(config.tls);
  const absl::StatusOr<CertificateInfo> info = ReadCertificate(config.tls.certificate);
  if (!usable.ok() || !info.ok()) {
    out.push_back(Failed("tls", std::string((usable.ok() ? info.status() : usable).message()),
                         {"put the right PEM files in place: they are read again when they change",
                          "until then the files that were read last are used"}));
    return;
  }
  const std::string text =
      absl::StrCat(config.tls.certificate, " for ",
                   info->names.empty() ? "no name" : absl::StrJoin(info->names, ", "), ", until ",
                   absl::FormatTime("%Y-%m-%d", info->not_after, absl::UTCTimeZone()));
  const std::vector<std::string> renew = {
      "renew the certificate and put it in place of the old one: no restart is needed"};
  if (info->not_after < now) {
    out.push_back(Failed("tls", absl::StrCat(text, ": it has expired"), renew));
  } else if (info->not_after < now + kSoon) {
    out.push_back(Warn("tls", absl::StrCat(text, ": it expires soon"), renew));
  } else if (info->names.empty()) {
    out.push_back(Failed("tls", absl::StrCat(text, ": no client will take it"),
                         {"have it signed with the host's name as subjectAltName"}));
  } else {
    out.push_back(Ok("tls", text));
  }
}

void CheckUsers(const Config& config, std::vector<Finding>& out) {
  if (config.users_path.empty()) return;
  const absl::Status status = UserFile::Open(config.users_path).status();
  if (status.ok()) {
    out.push_back(Ok("tokens", absl::StrCat(config.users_path, " can be read")));
    return;
  }
  out.push_back(Failed("tokens", std::string(status.message()),
                       {"correct the file: nobody is let in by it until it can be read"}));
}

struct FreeActions {
  posix_spawn_file_actions_t* actions;
  ~FreeActions() { posix_spawn_file_actions_destroy(actions); }
};

// What the program at `path` prints when it is called with `word`; Unavailable says why it does
// not.
absl::StatusOr<std::string> Ask(const std::string& path, const char* word) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(strerror(errno));
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const FreeActions owned{&actions};
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  std::string program = path;
  std::string argument = word;
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t pid = 0;
  if (const int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv, environ);
      error != 0)
    return absl::UnavailableError(strerror(error));
  write_end.Reset();
  std::string said;
  const int64_t end_ns = MonotonicNs() + absl::ToInt64Nanoseconds(kWorkerPatience);
  bool is_done = false;
  while (!is_done && said.size() < kMaxAnswerBytes) {
    pollfd wait{read_end.get(), POLLIN, 0};
    const int64_t left_ms = (end_ns - MonotonicNs()) / 1'000'000;
    if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) == 0) break;
    char buffer[4096];
    const ssize_t got = read(read_end.get(), buffer, sizeof buffer);
    if (got > 0) said.append(buffer, static_cast<size_t>(got));
    is_done = got == 0 || (got < 0 && errno != EINTR);
  }
  if (!is_done) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!is_done) return absl::UnavailableError("it did not answer");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::UnavailableError(
        absl::StrCat("it ended with ",
                     WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                                         : absl::StrCat("exit ", WEXITSTATUS(status)),
                     said.empty() ? "" : ": ", absl::StripAsciiWhitespace(said)));
  }
  return said;
}

Finding CheckWorker(const Config& config) {
  const std::vector<std::string> hints = {
      "install libreyolo-worker beside libreyolod, from the same build, or name it in --worker",
      "readers work without it"};
  if (access(config.worker_path.c_str(), X_OK) != 0) {
    return Failed("worker", absl::StrCat(config.worker_path, ": ", strerror(errno)), hints);
  }
  const absl::StatusOr<std::string> said = Ask(config.worker_path, "--version");
  if (!said.ok()) {
    return Failed(
        "worker", absl::StrCat(config.worker_path, " does not run: ", said.status().message()),
        {"run it with --version on the server: the loader names a library that is missing",
         hints[0]});
  }
  const std::vector<std::string> words =
      absl::StrSplit(*said, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const std::string build = words.empty() ? "" : words.back();
  if (build != BuildId()) {
    return Failed(
        "worker",
        absl::StrCat(config.worker_path, " is of build ", build, ", libreyolod of ", BuildId()),
        {"install both from one build, and restart libreyolod"});
  }
  return Ok("worker", absl::StrCat(config.worker_path, " runs"));
}

// The worker's answer (server/worker/main.cc): "ok TEXT" or "failed TEXT", then lines "hint TEXT".
Finding CheckCapture(const Config& config) {
  const absl::StatusOr<std::string> said = Ask(config.worker_path, "--check-capture");
  if (!said.ok()) {
    return Failed("cupti", absl::StrCat("the worker cannot tell: ", said.status().message()),
                  {"install libreyolod and libreyolo-worker from one build"});
  }
  Finding finding;
  finding.check = "cupti";
  for (absl::string_view line : absl::StrSplit(*said, '\n', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&line, "hint ")) {
      finding.hints.emplace_back(line);
    } else if (absl::ConsumePrefix(&line, "ok ")) {
      finding.text = std::string(line);
    } else {
      finding.health = Health::kFailed;
      absl::ConsumePrefix(&line, "failed ");
      absl::StrAppend(&finding.text, finding.text.empty() ? "" : "; ", line);
    }
  }
  if (finding.health != Health::kOk)
    finding.hints.push_back("--no-trace measures without recording what the GPU does");
  return finding;
}

// What holds workers, as far as it depends on this host and on the settings.
void CheckConfinement(const Config& config, std::vector<Finding>& out) {
  const std::string check = "worker files";
  if (config.worker_all_files) {
    out.push_back(Warn(check, "workers may open all files that libreyolod may (--worker-all-files)",
                       {"take it out of the settings; --worker-read PATH grants what they lack"}));
  } else if (!FileFence::IsSupported()) {
    out.push_back(Warn(check,
                       "workers may open all files that libreyolod may: the kernel has no "
                       "Landlock",
                       {"run Linux 5.13 or newer, with landlock among its security modules",
                        "until then let no strangers send weights"}));
  } else {
    out.push_back(Ok(check, config.local ? "workers write their jobs' results and nothing else"
                                         : "workers open what their jobs name and nothing else"));
  }
  if (config.local || geteuid() != 0) return;
  out.push_back(Warn("account", "libreyolod runs as root",
                     {"run it as an account of its own, as the packages do"}));
}

}  // namespace

std::vector<Finding> Diagnose(const Config& config, const DeviceInventory& devices,
                              bool is_measuring, absl::Time now) {
  std::vector<Finding> out;
  out.push_back(CheckStore(config));
  out.push_back(CheckDisk("store disk", config.state_dir));
  out.push_back(CheckDisk("cache disk", config.cache_dir));
  out.push_back(CheckLocks(config));
  CheckFolders("weights", config.weights_folders, true, out);
  CheckFolders("datasets", config.datasets_folders, false, out);
  CheckTls(config, now, out);
  CheckUsers(config, out);
  CheckConfinement(config, out);
  const std::string no_gpu = devices.CudaUnusableReason();
  out.push_back(no_gpu.empty()
                    ? Ok("driver", "lists GPUs that can be used")
                    : Warn("driver", no_gpu,
                           {"--device cpu measures on the CPU",
                            "for a GPU: nvidia-smi must list it for the account that runs "
                            "libreyolod; in a container give it the NVIDIA runtime"}));
  if (is_measuring) {
    out.push_back(Ok("worker", "not looked at while a job measures"));
    return out;
  }
  out.push_back(CheckWorker(config));
  if (no_gpu.empty() && out.back().health == Health::kOk) out.push_back(CheckCapture(config));
  return out;
}

}  // namespace libreyolo::daemon
