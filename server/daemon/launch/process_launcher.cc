#include "server/daemon/launch/process_launcher.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "server/daemon/launch/confine.h"
#include "server/daemon/launch/process_session.h"
#include "server/daemon/launch/sanitized.h"
#include "server/daemon/launch/worker_processes.h"
#include "server/worker_link/worker_channel.h"

namespace libreyolo::daemon {
namespace {

constexpr int kFirstLeaseFd = 4;

// The only variables of the daemon that a worker sees: where programs and libraries are, nothing of
// a job's meaning.
constexpr const char* kPassedThrough[] = {"PATH",           "HOME",         "LANG",
                                          "LC_ALL",         "TMPDIR",       "LD_LIBRARY_PATH",
                                          "CUDA_HOME",      "CUDA_PATH",    "LIBREYOLO_CUPTI",
                                          "LIBREYOLO_NVML", "ASAN_OPTIONS", "LSAN_OPTIONS",
                                          "UBSAN_OPTIONS"};

std::vector<std::string> BuildEnvironment(const LaunchRequest& request) {
  std::vector<std::string> out;
  for (const char* name : kPassedThrough) {
    if (const char* value = getenv(name)) out.push_back(absl::StrCat(name, "=", value));
  }
  for (const auto& [name, value] : request.environment)
    out.push_back(absl::StrCat(name, "=", value));
  // What CUDA compiles stays among the jobs of one workspace; its own place for it is out of reach.
  out.push_back(absl::StrCat("CUDA_CACHE_PATH=", request.plan.cache_dir, "/cuda"));
  out.push_back(JobMark(request.plan.job_id));
  return out;
}

// Above the descriptors that the child gets fixed numbers for, so that dup2 overwrites none of
// them.
UniqueFd MoveHigh(UniqueFd fd) { return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 16)); }

// What the time limit lets it burn on all processors, should nobody be there to end it; less when
// the server says so.
int64_t CpuSeconds(const WorkerLimits& limits, int64_t time_limit_s) {
  const int64_t processors = std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_CONF));
  const int64_t most = time_limit_s > 0 ? (time_limit_s + 60) * processors : 0;
  if (limits.cpu_seconds == 0 || most == 0) return std::max(limits.cpu_seconds, most);
  return std::min(limits.cpu_seconds, most);
}

// `fence` may be null.
absl::StatusOr<StartedProcess> Spawn(const ProcessLauncher::Settings& settings,
                                     int64_t memory_bytes, const LaunchRequest& request,
                                     const FileFence* fence, int link_fd) {
  UniqueFd log(open(request.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return ErrnoStatus(errno, "open", request.log_path);
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return ErrnoStatus(errno, "open", "/dev/null");
  const UniqueFd null_high = MoveHigh(std::move(null));
  const UniqueFd link = MoveHigh(UniqueFd(dup(link_fd)));
  const UniqueFd log_high = MoveHigh(std::move(log));
  std::vector<UniqueFd> leases;
  for (int fd : request.lease_fds) leases.push_back(MoveHigh(UniqueFd(dup(fd))));

  ConfinedProcess process;
  process.program = settings.worker_path;
  process.environment = BuildEnvironment(request);
  process.calls = {settings.allow_network, HasMultiProcessService(), settings.allow_children};
  process.files = fence;
  const WorkerLimits& limits = settings.limits;
  // A sanitizer's shadow memory counts as data: terabytes of it, reserved at the start.
  if (request.plan.device == "cpu" && !kSanitized) process.data_bytes = memory_bytes;
  process.cpu_seconds = CpuSeconds(limits, request.time_limit_s);
  process.open_files = limits.open_files;
  process.processes = limits.processes;
  process.file_bytes = limits.file_bytes;
  process.descriptors = {{null_high.get(), 0},
                         {null_high.get(), 1},
                         {log_high.get(), 2},
                         {link.get(), worker_link::kWorkerLinkFd}};
  for (size_t i = 0; i < leases.size(); ++i) {
    process.descriptors.emplace_back(leases[i].get(), kFirstLeaseFd + static_cast<int>(i));
  }
  return StartConfined(process);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSession>> ProcessLauncher::Launch(const LaunchRequest& request,
                                                                       WorkerEvents events) {
  LY_RETURN_IF_ERROR(AtFaultPoint(settings_.at, "launch"));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return ErrnoStatus(errno, "make", "a socket pair");
  }
  UniqueFd ours(pair[0]);
  const UniqueFd theirs(pair[1]);
  LY_RETURN_IF_ERROR(AtFaultPoint(settings_.at, "spawn worker"));
  absl::StatusOr<FileFence> fence = absl::UnimplementedError("");
  if (!settings_.files.all) {
    fence = MakeFence(request.plan);
    if (!fence.ok() && !absl::IsUnimplemented(fence.status())) return fence.status();
  }
  const absl::StatusOr<StartedProcess> started =
      Spawn(settings_, memory_bytes_, request, fence.ok() ? &*fence : nullptr, theirs.get());
  if (!started.ok()) return started.status();
  const pid_t pid = started->pid;
  (void)AtFaultPoint(settings_.at, "after spawn worker");
  if (started->network_error != 0 && started->filter_error != 0 && !told_of_network_) {
    told_of_network_ = true;
    LogWarning("workers keep the network: the kernel does not let them leave it",
               {{"error", strerror(started->network_error)}});
  }
  if (started->filter_error != 0 && !told_of_filter_) {
    told_of_filter_ = true;
    LogWarning("workers may signal other processes of the account: the kernel filters no calls",
               {{"error", strerror(started->filter_error)}});
  }
  auto session = StartSession({loop_, settings_.at, leaders_, memory_bytes_,
                               CpuSeconds(settings_.limits, request.time_limit_s),
                               settings_.min_free_bytes, request.log_path},
                              pid, std::move(ours), request.plan, std::move(events));
  LogInfo("worker started",
          {{"job", request.plan.job_id}, {"trial", request.plan.trial}, {"pid", pid}});
  return session;
}

absl::StatusOr<FileFence> ProcessLauncher::MakeFence(const worker_link::WorkerPlan& plan) {
  // A grant is for what is there. Where it cannot be made the worker says so when it needs it.
  (void)MakeDirectories(plan.cache_dir, 0700);
  absl::StatusOr<FileFence> fence = FileFence::Make(
      GrantsFor(plan, settings_.worker_path, settings_.files), settings_.allow_network);
  if (absl::IsUnimplemented(fence.status()) && !told_of_files_) {
    told_of_files_ = true;
    LogWarning("workers may open all files that libreyolod may",
               {{"error", fence.status().message()}});
  }
  return fence;
}

}  // namespace libreyolo::daemon
