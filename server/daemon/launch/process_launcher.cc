#include "server/daemon/launch/process_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "server/daemon/launch/confine.h"
#include "server/daemon/launch/worker_processes.h"
#include "server/daemon/store/disk_room.h"
#include "server/worker_link/worker_channel.h"

namespace libreyolo::daemon {
namespace {

using worker_link::FrameDecoder;

constexpr int kFirstLeaseFd = 4;
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(500);
// Of the link in one turn of the control thread. A measurement of 3 MiB comes in fifty.
constexpr size_t kLinkTurnBytes = 64 << 10;
// A real worker sends ten a second or so.
constexpr int kMaxMessagesPerWatch = 1000;
constexpr absl::Duration kGroupPoll = absl::Milliseconds(20);

// A sanitizer's shadow memory counts as data: terabytes of it, reserved at the start.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

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

// CUDA's, whose clients connect to it by a path.
bool HasMultiProcessService() { return access(kMpsFolder, F_OK) == 0; }

// Above the descriptors that the child gets fixed numbers for, so that dup2 overwrites none of
// them.
UniqueFd MoveHigh(UniqueFd fd) { return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 16)); }

// This C library's header declares pidfd_open for C only.
int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

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

int64_t FileBytes(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

std::string LastLogLine(const std::string& path) {
  const std::string tail = TailOfFile(path, 4096);
  std::string last;
  for (absl::string_view line : absl::StrSplit(tail, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) last = std::string(line.substr(0, 500));
  }
  return last;
}

class ProcessSession : public WorkerSession {
 public:
  // What the daemon itself looks after while a worker runs.
  struct Bounds {
    int64_t memory_bytes;
    int64_t cpu_seconds;
    int64_t min_free_bytes;
    std::string staging_dir;  // on the disk that is meant
  };
  // `leaders` are the workers that live, on the control thread alone.
  ProcessSession(ControlLoop& loop, FaultHook at, std::set<pid_t>& leaders, Bounds bounds,
                 pid_t pid, UniqueFd pidfd, UniqueFd link, std::string log_path,
                 WorkerEvents events)
      : loop_(loop),
        at_(std::move(at)),
        leaders_(leaders),
        bounds_(std::move(bounds)),
        log_begin_bytes_(FileBytes(log_path)),
        pid_(pid),
        pidfd_(std::move(pidfd)),
        link_(std::move(link)),
        log_path_(std::move(log_path)),
        events_(std::move(events)) {
    leaders_.insert(pid_);
    loop_.WatchFd(pidfd_.get(), [this](uint32_t) { OnLeaderExit(); });
    loop_.WatchFd(link_.get(), [this](uint32_t) { OnLinkReadable(); });
    ArmWatch();
  }

  ~ProcessSession() override {
    loop_.CancelTimer(group_timer_);
    loop_.CancelTimer(watch_timer_);
    loop_.UnwatchFd(pidfd_.get());
    if (link_) loop_.UnwatchFd(link_.get());
    if (!gone_) kill(-pid_, SIGKILL);
    leaders_.erase(pid_);
  }

  int pid() const override { return pid_; }

  void SendPlan(const worker_link::WorkerPlan& plan) {
    SendFrame(worker_link::EncodePayload(worker_link::DaemonMessage(plan)));
  }
  void RequestCancel() override {
    SendFrame(worker_link::EncodePayload(worker_link::DaemonMessage(worker_link::Cancel{})));
  }
  void Kill() override {
    if (!gone_) kill(-pid_, SIGKILL);
  }

 private:
  void SendFrame(const std::string& payload) {
    if (!AtFaultPoint(at_, "link send").ok()) return;
    const std::string frame = worker_link::EncodeFrame(payload);
    absl::string_view rest = frame;
    while (link_ && !rest.empty()) {
      const ssize_t sent = send(link_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        rest.remove_prefix(static_cast<size_t>(sent));
        continue;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return;  // the worker is gone: its exit tells
      // A worker reads its orders at once; one that does not within a second is hung and is found
      // by its heartbeat.
      pollfd waiting{link_.get(), POLLOUT, 0};
      if (poll(&waiting, 1, 1000) <= 0) return;
    }
  }

  void ArmWatch() {
    watch_timer_ = loop_.RunAfter(kWatchPeriod, [this] {
      messages_since_watch_ = 0;
      const absl::Status status = CheckLimits();
      if (status.ok()) return ArmWatch();
      if (events_.on_limit) events_.on_limit(status);  // may destroy this session
    });
  }
  absl::Status CheckLimits() const {
    if (const int64_t used = OwnMemoryOf(pid_); used > bounds_.memory_bytes) {
      return OverMemory(used, bounds_.memory_bytes);
    }
    if (FileBytes(log_path_) - log_begin_bytes_ > kMaxJobLogBytes) {
      return MakeError(reason::kWorkerLimit,
                       absl::StrCat("the worker wrote more than ", kMaxJobLogBytes >> 20,
                                    " MiB to its log and was killed"));
    }
    // A job begins with all of the reserve; what it writes may take the half of it.
    return CheckDiskRoom(bounds_.staging_dir, 0, bounds_.min_free_bytes / 2, "a running job");
  }
  // What its end itself tells of a limit.
  absl::Status LimitOf(const WorkerExit& exit) const {
    if (exit.signal == SIGXCPU) {
      return OverLimit(absl::StrCat("the worker took more than ", bounds_.cpu_seconds,
                                    " s of CPU time and was killed"),
                       "--worker-cpu-time");
    }
    if (exit.signal == SIGXFSZ) {
      return OverLimit("the worker wrote a file that is too large and was killed",
                       "--worker-file-size");
    }
    if (exit.signal == SIGKILL && KernelOomKills() > oom_kills_before_) {
      return OverMemory(0, bounds_.memory_bytes);
    }
    // A library that was refused memory where nobody could say so.
    for (const char* words : {"bad_alloc", "Cannot allocate memory", "MemoryError"}) {
      const bool failed = exit.signal != 0 || exit.exit_code != 0;
      if (failed && absl::StrContains(exit.last_log_line, words))
        return Refused(bounds_.memory_bytes);
    }
    return absl::OkStatus();
  }

  void OnLinkReadable() {
    if (!AtFaultPoint(at_, "link receive").ok()) return CloseLink();
    // One piece a turn, however much there is: others have theirs, and nothing piles up.
    ReadLink();
  }
  // False when there is nothing more to read now.
  bool ReadLink() {
    char buffer[kLinkTurnBytes];
    ssize_t got = 0;
    do {
      got = recv(link_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) {
      CloseLink();
      return false;
    }
    if (broken_) return true;  // of no use any more
    decoder_.Feed(absl::string_view(buffer, static_cast<size_t>(got)));
    DeliverMessages();
    return true;
  }

  void DeliverMessages() {
    while (!broken_) {
      absl::StatusOr<std::optional<std::string>> payload = decoder_.Next();
      if (payload.ok() && !payload->has_value()) return;
      if (payload.ok()) {
        absl::StatusOr<worker_link::WorkerMessage> message =
            worker_link::DecodeWorkerMessage(**payload);
        if (message.ok() && ++messages_since_watch_ > kMaxMessagesPerWatch) {
          message = absl::InvalidArgumentError("the worker floods the daemon with messages");
        }
        if (message.ok()) {
          events_.on_message(*std::move(message));
          continue;
        }
        payload = message.status();
      }
      broken_ = true;
      events_.on_protocol_error(payload.status());
    }
  }

  // It could do with its log what it liked until somebody looked.
  void CutLog() const {
    if (FileBytes(log_path_) - log_begin_bytes_ <= kMaxJobLogBytes) return;
    if (truncate(log_path_.c_str(), log_begin_bytes_ + kMaxJobLogBytes) != 0)
      LogError("job log not cut", {{"path", log_path_}, {"error", strerror(errno)}});
  }

  void CloseLink() {
    if (!link_) return;
    loop_.UnwatchFd(link_.get());
    link_.Reset();
  }

  void OnLeaderExit() {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return;
    leaders_.erase(pid_);
    loop_.UnwatchFd(pidfd_.get());
    loop_.CancelTimer(watch_timer_);
    exit_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    exit_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    // What it said last; a child of it may go on for ever.
    for (size_t i = 0; i < worker_link::kMaxFrameBytes / kLinkTurnBytes && link_ && ReadLink();
         ++i) {
    }
    CloseLink();
    WaitForGroup();
  }

  // Children that the worker left are orphans of this daemon (a subreaper): kill and reap them
  // before the device is free again.
  void WaitForGroup() {
    kill(-pid_, SIGKILL);
    while (waitpid(-pid_, nullptr, WNOHANG) > 0) {
    }
    // Some may have left the group, where they could be started at all.
    if (EndStrays(leaders_) || kill(-pid_, 0) == 0) {
      group_timer_ = loop_.RunAfter(kGroupPoll, [this] { WaitForGroup(); });
      return;
    }
    gone_ = true;
    CutLog();
    exit_.last_log_line = LastLogLine(log_path_);
    exit_.limit = LimitOf(exit_);
    // The callback may destroy this session.
    const auto on_exit = std::move(events_.on_exit);
    const WorkerExit exit = exit_;
    on_exit(exit);
  }

  ControlLoop& loop_;
  const FaultHook at_;
  std::set<pid_t>& leaders_;
  const Bounds bounds_;
  const int64_t log_begin_bytes_;
  const int64_t oom_kills_before_ = KernelOomKills();
  const pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd link_;
  const std::string log_path_;
  WorkerEvents events_;
  FrameDecoder decoder_;
  WorkerExit exit_;
  TaskRunner::TimerId group_timer_ = 0;
  TaskRunner::TimerId watch_timer_ = 0;
  int messages_since_watch_ = 0;
  bool broken_ = false;
  bool gone_ = false;
};

}  // namespace

std::string Describe(const WorkerExit& exit) {
  return exit.signal != 0 ? absl::StrCat("signal ", exit.signal, " (", strsignal(exit.signal), ")")
                          : absl::StrCat("exit ", exit.exit_code);
}

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
  UniqueFd pidfd(PidfdOpen(pid));
  LY_CHECK(pidfd) << "pidfd_open: " << strerror(errno);
  auto session = std::make_unique<ProcessSession>(
      loop_, settings_.at, leaders_,
      ProcessSession::Bounds{memory_bytes_, CpuSeconds(settings_.limits, request.time_limit_s),
                             settings_.min_free_bytes, request.plan.staging_dir},
      pid, std::move(pidfd), std::move(ours), request.log_path, std::move(events));
  session->SendPlan(request.plan);
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
