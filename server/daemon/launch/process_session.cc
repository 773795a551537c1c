#include "server/daemon/launch/process_session.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "server/daemon/launch/worker_limits.h"
#include "server/daemon/launch/worker_processes.h"
#include "server/daemon/store/disk_room.h"
#include "server/worker_link/frame.h"
#include "server/worker_link/worker_channel.h"

namespace libreyolo::daemon {
namespace {

constexpr absl::Duration kWatchPeriod = absl::Milliseconds(500);
// Of the link in one turn of the control thread. A measurement of 3 MiB comes in fifty.
constexpr size_t kLinkTurnBytes = 64 << 10;
// A real worker sends ten a second or so.
constexpr int kMaxMessagesPerWatch = 1000;
constexpr absl::Duration kSendPoll = absl::Milliseconds(10);
constexpr absl::Duration kGroupPoll = absl::Milliseconds(20);

// This C library's header declares pidfd_open for C only.
int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

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
  ProcessSession(SessionDeps deps, std::string disk, pid_t pid, UniqueFd pidfd, UniqueFd link,
                 WorkerEvents events)
      : deps_(std::move(deps)),
        disk_(std::move(disk)),
        log_begin_bytes_(FileBytes(deps_.log_path)),
        pid_(pid),
        pidfd_(std::move(pidfd)),
        link_(std::move(link)),
        events_(std::move(events)) {
    deps_.leaders.insert(pid_);
    deps_.loop.WatchFd(pidfd_.get(), [this](uint32_t) { OnLeaderExit(); });
    deps_.loop.WatchFd(link_.get(), [this](uint32_t) { OnLinkReadable(); });
    ArmWatch();
  }

  ~ProcessSession() override {
    deps_.loop.CancelTimer(group_timer_);
    deps_.loop.CancelTimer(watch_timer_);
    deps_.loop.CancelTimer(send_timer_);
    deps_.loop.UnwatchFd(pidfd_.get());
    if (link_) deps_.loop.UnwatchFd(link_.get());
    if (!gone_) kill(-pid_, SIGKILL);
    deps_.leaders.erase(pid_);
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
    if (!AtFaultPoint(deps_.at, "link send").ok()) return;
    unsent_ += worker_link::EncodeFrame(payload);
    deps_.loop.CancelTimer(send_timer_);
    SendRest();
  }
  // A worker reads its orders at once; one that does not is found by its heartbeat.
  void SendRest() {
    while (link_ && !unsent_.empty()) {
      const ssize_t sent =
          send(link_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        unsent_.erase(0, static_cast<size_t>(sent));
        continue;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return;  // the worker is gone: its exit tells
      send_timer_ = deps_.loop.RunAfter(kSendPoll, [this] { SendRest(); });
      return;
    }
  }

  void ArmWatch() {
    watch_timer_ = deps_.loop.RunAfter(kWatchPeriod, [this] {
      messages_since_watch_ = 0;
      const absl::Status status = CheckLimits();
      if (status.ok()) return ArmWatch();
      if (events_.on_limit) events_.on_limit(status);  // may destroy this session
    });
  }
  absl::Status CheckLimits() const {
    if (const int64_t used = OwnMemoryOf(pid_); used > deps_.memory_bytes) {
      return OverMemory(used, deps_.memory_bytes);
    }
    if (FileBytes(deps_.log_path) - log_begin_bytes_ > kMaxJobLogBytes) {
      return MakeError(reason::kWorkerLimit,
                       absl::StrCat("the worker wrote more than ", kMaxJobLogBytes >> 20,
                                    " MiB to its log and was killed"));
    }
    // A job begins with all of the reserve; what it writes may take the half of it.
    return CheckDiskRoom(disk_, 0, deps_.min_free_bytes / 2, "a running job");
  }
  // What its end itself tells of a limit.
  absl::Status LimitOf(const WorkerExit& exit) const {
    if (exit.signal == SIGXCPU) {
      return OverLimit(absl::StrCat("the worker took more than ", deps_.cpu_seconds,
                                    " s of CPU time and was killed"),
                       "--worker-cpu-time");
    }
    if (exit.signal == SIGXFSZ) {
      return OverLimit("the worker wrote a file that is too large and was killed",
                       "--worker-file-size");
    }
    if (exit.signal == SIGKILL && KernelOomKills() > oom_kills_before_) {
      return OverMemory(0, deps_.memory_bytes);
    }
    // A library that was refused memory where nobody could say so.
    for (const char* words : {"bad_alloc", "Cannot allocate memory", "MemoryError"}) {
      const bool failed = exit.signal != 0 || exit.exit_code != 0;
      if (failed && absl::StrContains(exit.last_log_line, words))
        return Refused(deps_.memory_bytes);
    }
    return absl::OkStatus();
  }

  void OnLinkReadable() {
    if (!AtFaultPoint(deps_.at, "link receive").ok()) return CloseLink();
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
    if (FileBytes(deps_.log_path) - log_begin_bytes_ <= kMaxJobLogBytes) return;
    if (truncate(deps_.log_path.c_str(), log_begin_bytes_ + kMaxJobLogBytes) != 0)
      LogError("job log not cut", {{"path", deps_.log_path}, {"error", strerror(errno)}});
  }

  void CloseLink() {
    if (!link_) return;
    deps_.loop.UnwatchFd(link_.get());
    link_.Reset();
  }

  void OnLeaderExit() {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return;
    deps_.leaders.erase(pid_);
    deps_.loop.UnwatchFd(pidfd_.get());
    deps_.loop.CancelTimer(watch_timer_);
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
    if (EndStrays(deps_.leaders) || kill(-pid_, 0) == 0) {
      group_timer_ = deps_.loop.RunAfter(kGroupPoll, [this] { WaitForGroup(); });
      return;
    }
    gone_ = true;
    CutLog();
    exit_.last_log_line = LastLogLine(deps_.log_path);
    exit_.limit = LimitOf(exit_);
    // The callback may destroy this session.
    const auto on_exit = std::move(events_.on_exit);
    const WorkerExit exit = exit_;
    on_exit(exit);
  }

  const SessionDeps deps_;
  const std::string disk_;  // a folder on the one that results go to
  const int64_t log_begin_bytes_;
  const int64_t oom_kills_before_ = KernelOomKills();
  const pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd link_;
  WorkerEvents events_;
  worker_link::FrameDecoder decoder_;
  WorkerExit exit_;
  TaskRunner::TimerId group_timer_ = 0;
  TaskRunner::TimerId watch_timer_ = 0;
  TaskRunner::TimerId send_timer_ = 0;
  std::string unsent_;
  int messages_since_watch_ = 0;
  bool broken_ = false;
  bool gone_ = false;
};

}  // namespace

std::string Describe(const WorkerExit& exit) {
  return exit.signal != 0 ? absl::StrCat("signal ", exit.signal, " (", strsignal(exit.signal), ")")
                          : absl::StrCat("exit ", exit.exit_code);
}

std::unique_ptr<WorkerSession> StartSession(SessionDeps deps, pid_t pid, UniqueFd link,
                                            const worker_link::WorkerPlan& plan,
                                            WorkerEvents events) {
  UniqueFd pidfd(PidfdOpen(pid));
  LY_CHECK(pidfd) << "pidfd_open: " << strerror(errno);
  auto session = std::make_unique<ProcessSession>(
      std::move(deps), plan.staging_dir, pid, std::move(pidfd), std::move(link), std::move(events));
  session->SendPlan(plan);
  return session;
}

}  // namespace libreyolo::daemon
