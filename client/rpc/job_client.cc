#include "client/rpc/job_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/rpc/local_daemon.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/unique_fd.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
constexpr absl::Duration kUnaryTimeout = absl::Seconds(30);
constexpr absl::Duration kCreateAgainFor = absl::Seconds(5);
// A cancellation that is on its way when the user leaves gets this long to be confirmed.
constexpr absl::Duration kCancelGrace = absl::Milliseconds(500);

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

// Whether the call did not reach the server or lost it on the way, so that it is worth repeating.
bool IsConnectionLost(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return true;
  if (!status.error_details().empty()) return false;  // the server's own word
  // A server that is killed or shut down resets its streams.
  return status.error_code() == grpc::StatusCode::CANCELLED ||
         (status.error_code() == grpc::StatusCode::INTERNAL &&
          absl::StrContains(status.error_message(), "RST_STREAM"));
}

// A handler can reach nothing but globals: this one descriptor.
std::atomic<int> g_interrupt_fd{-1};

void OnInterrupt(int) {
  const int errno_before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(g_interrupt_fd, &one, sizeof one);
  errno = errno_before;
}

// SIGINT and SIGTERM as a count that is read from a descriptor, for its lifetime. SIGHUP is left
// alone: a terminal that goes away is a lost connection, and the job goes on.
class Interrupts {
 public:
  Interrupts() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    g_interrupt_fd = fd_.get();
    for (Taken& taken : taken_) {
      sigaction(taken.number, nullptr, &taken.before);
      // Ignored on purpose, by nohup or a shell's background job.
      if (taken.before.sa_handler == SIG_IGN) continue;
      struct sigaction action {};
      action.sa_handler = &OnInterrupt;
      sigaction(taken.number, &action, nullptr);
    }
  }
  ~Interrupts() {
    for (const Taken& taken : taken_) sigaction(taken.number, &taken.before, nullptr);
    g_interrupt_fd = -1;
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const { return fd_.get(); }
  // How many came since the last call.
  int Take() {
    uint64_t count = 0;
    return read(fd_.get(), &count, sizeof count) == static_cast<ssize_t>(sizeof count)
               ? static_cast<int>(count)
               : 0;
  }

 private:
  struct Taken {
    int number;
    struct sigaction before;
  };

  UniqueFd fd_;
  Taken taken_[2] = {{SIGINT, {}}, {SIGTERM, {}}};
};

// Asks for a job's cancellation on a thread of its own: the user may want to leave meanwhile.
class CancelCall {
 public:
  CancelCall(const Server& server, std::string job_id)
      : stub_(v1::JobService::NewStub(server.channel)), job_id_(std::move(job_id)) {}
  ~CancelCall() { End(); }
  CancelCall(const CancelCall&) = delete;
  CancelCall& operator=(const CancelCall&) = delete;

  // Does nothing when it was answered or is on its way.
  void Send() {
    if (confirmed_ || refused_ || (thread_.joinable() && !ended_)) return;
    End();
    ended_ = false;
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_deadline(absl::ToChronoTime(absl::Now() + kUnaryTimeout));
    thread_ = std::thread([this] {
      v1::CancelJobRequest request;
      request.set_id(job_id_);
      v1::Job ignored;
      const grpc::Status status = stub_->CancelJob(context_.get(), request, &ignored);
      const std::lock_guard<std::mutex> lock(mu_);
      confirmed_ = status.ok();
      refused_ = !status.ok() && !IsConnectionLost(status);
      ended_ = true;
      changed_.notify_all();
    });
  }
  // True once the server has answered, which is waited for.
  bool WaitForConfirmation(absl::Duration timeout) {
    std::unique_lock<std::mutex> lock(mu_);
    if (thread_.joinable()) {
      changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [&] { return ended_.load(); });
    }
    return confirmed_;
  }

 private:
  void End() {
    if (!thread_.joinable()) return;
    context_->TryCancel();
    thread_.join();
  }

  std::unique_ptr<v1::JobService::Stub> stub_;
  const std::string job_id_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::mutex mu_;  // for `changed_`
  std::condition_variable changed_;
  std::atomic<bool> confirmed_{false};
  std::atomic<bool> refused_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

// Reads one watch stream on a thread of its own and wakes the follower through a descriptor.
class WatchStream {
 public:
  WatchStream(const Server& server, const std::string& job_id, int64_t after_sequence)
      : stub_(v1::JobService::NewStub(server.channel)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    v1::WatchJobRequest request;
    request.set_id(job_id);
    request.set_after_sequence(after_sequence);
    thread_ = std::thread([this, request] { Read(request); });
  }
  ~WatchStream() {
    context_.TryCancel();
    thread_.join();
  }

  int fd() const { return wake_.get(); }
  // What came since the last call; `*end` is set once the stream ended, after its last event.
  std::deque<v1::JobEvent> Take(std::optional<grpc::Status>* end) {
    uint64_t ignored;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &ignored, sizeof ignored);
    const std::lock_guard<std::mutex> lock(mu_);
    *end = end_;
    return std::move(events_);
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = write(wake_.get(), &one, sizeof one);
  }
  void Read(const v1::WatchJobRequest& request) {
    const auto reader = stub_->WatchJob(&context_, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      {
        const std::lock_guard<std::mutex> lock(mu_);
        events_.push_back(event);
      }
      Wake();
    }
    const grpc::Status status = reader->Finish();
    {
      const std::lock_guard<std::mutex> lock(mu_);
      end_ = status;
    }
    Wake();
  }

  std::unique_ptr<v1::JobService::Stub> stub_;
  grpc::ClientContext context_;
  UniqueFd wake_;
  std::mutex mu_;
  std::deque<v1::JobEvent> events_;
  std::optional<grpc::Status> end_;
  std::thread thread_;
};

// Follows one job; a class for the state that its steps share.
class Follower {
 public:
  Follower(const Server& server, std::string job_id, const FollowOptions& options)
      : server_(server), job_id_(std::move(job_id)), options_(options), cancel_(server, job_id_) {
    result_.job.set_id(job_id_);
  }

  absl::StatusOr<FollowResult> Run() {
    for (;;) {
      std::optional<grpc::Status> end;
      if (FollowStream(&end)) return Result();
      if (end.has_value() && !end->ok() && !IsConnectionLost(*end)) {
        return rpc::FromGrpcStatus(*end);
      }
      if (!lost_since_.has_value()) {
        // One that is only old, or whose server starts anew, is made again at once.
        lost_since_ = clock_.Monotonic();
      } else if (!is_loss_told_) {
        is_loss_told_ = true;
        Note(absl::StrCat("lost the connection to ", server_.address, "; trying again for ",
                          absl::FormatDuration(options_.give_up_after)));
      }
      const absl::Duration left = TimeLeft();
      if (left <= absl::ZeroDuration()) return GiveUp();
      if (WaitForInterrupt(std::min(pause_, left))) return Result();
      pause_ = std::min(pause_ * 2, kLongestPause);
      RestartLocalDaemon();
      grpc::experimental::ChannelResetConnectionBackoff(server_.channel.get());
    }
  }

 private:
  // True when following is over. Else the stream ended, or nothing came for as long as a lost
  // connection is waited for; then `*end` is empty.
  bool FollowStream(std::optional<grpc::Status>* end) {
    WatchStream stream(server_, job_id_, result_.job.sequence());
    for (;;) {
      pollfd waiting[] = {{stream.fd(), POLLIN, 0}, {interrupts_.fd(), POLLIN, 0}};
      const int ready = poll(waiting, 2, PollTimeoutMs());
      if (HandleInterrupts()) return true;
      for (v1::JobEvent& event : stream.Take(end)) {
        if (HandleEvent(event)) return true;
      }
      if (end->has_value() || (ready == 0 && TimeLeft() <= absl::ZeroDuration())) return false;
    }
  }

  // True when it was the last.
  bool HandleEvent(v1::JobEvent& event) {
    if (lost_since_.has_value()) {
      lost_since_.reset();
      pause_ = kFirstPause;
      if (is_loss_told_) Note("the connection is back");
      is_loss_told_ = false;
    }
    // It may have been lost with the connection.
    if (cancel_wanted_) cancel_.Send();
    result_.job = std::move(*event.mutable_job());
    result_.job.set_id(job_id_);
    result_.job.set_sequence(event.sequence());
    if (options_.on_event) options_.on_event(result_.job);
    return IsTerminal(result_.job.state());
  }

  // True when the user wants to leave now.
  bool HandleInterrupts() {
    for (int count = interrupts_.Take(); count > 0; --count) {
      if (result_.interrupted || !options_.cancel_on_interrupt) {
        result_.interrupted = true;
        result_.end = FollowEnd::kInterrupted;
        result_.cancel_confirmed = cancel_wanted_ && cancel_.WaitForConfirmation(kCancelGrace);
        if (cancel_wanted_ && !result_.cancel_confirmed) {
          Note(absl::StrCat("the server has not confirmed the cancellation; job ", job_id_,
                            " may go on"));
        }
        return true;
      }
      result_.interrupted = true;
      cancel_wanted_ = true;
      Note("cancelling; interrupt again to leave at once");
      cancel_.Send();
    }
    return false;
  }

  bool WaitForInterrupt(absl::Duration pause) {
    pollfd waiting{interrupts_.fd(), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(pause)));
    return HandleInterrupts();
  }

  absl::Duration TimeLeft() const {
    if (!lost_since_.has_value()) return absl::InfiniteDuration();
    return *lost_since_ + options_.give_up_after - clock_.Monotonic();
  }

  // No limit while the connection stands: a job may say nothing for long.
  int PollTimeoutMs() const {
    if (!lost_since_.has_value()) return -1;
    const absl::Duration left = std::max(TimeLeft(), absl::ZeroDuration());
    return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  }

  // A local daemon that died is started again; it knows what became of the job. That it cannot be
  // started is no end: somebody else may do it.
  void RestartLocalDaemon() {
    if (!server_.local) return;
    const auto place = FindLocalDaemonPlace();
    if (!place.ok() || IsListening(place->socket_path)) return;
    const absl::Status started = StartLocalDaemon(*place);
    why_not_started_ = started.ok() ? "" : std::string(started.message());
  }

  absl::Status GiveUp() const {
    return MakeError(
        reason::kServerUnreachable,
        absl::StrCat("the connection to ", server_.address,
                     " was lost and did not come back within ",
                     absl::FormatDuration(options_.give_up_after), "; job ", job_id_, " may go on",
                     why_not_started_.empty() ? "" : ": ", why_not_started_),
        {absl::StrCat("libreyolo jobs watch ", job_id_, " follows it again")}, {{"job", job_id_}});
  }

  FollowResult Result() {
    if (result_.end == FollowEnd::kTerminal && cancel_wanted_) {
      result_.cancel_confirmed = cancel_.WaitForConfirmation(kCancelGrace);
    }
    return result_;
  }

  void Note(const std::string& text) const {
    if (options_.on_note) options_.on_note(text);
  }

  const Server& server_;
  const std::string job_id_;
  const FollowOptions& options_;
  const SystemClock clock_;
  Interrupts interrupts_;
  CancelCall cancel_;
  bool cancel_wanted_ = false;
  std::optional<absl::Duration> lost_since_;
  absl::Duration pause_ = kFirstPause;
  bool is_loss_told_ = false;
  std::string why_not_started_;
  FollowResult result_;
};

}  // namespace

std::string NewRequestId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

absl::StatusOr<v1::Job> CreateJob(const Server& server, const v1::JobSpec& spec,
                                  const std::string& request_id) {
  const auto stub = v1::JobService::NewStub(server.channel);
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  const SystemClock clock;
  const absl::Duration end = clock.Monotonic() + kCreateAgainFor;
  for (absl::Duration pause = kFirstPause;; pause *= 2) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kUnaryTimeout));
    v1::Job job;
    const grpc::Status status = stub->CreateJob(&context, request, &job);
    if (status.ok()) return job;
    // A server that drains says so itself, and means it. Without an id a repetition could make a
    // second job.
    const bool again = IsConnectionLost(status) && status.error_details().empty() &&
                       !request_id.empty() && clock.Monotonic() + pause < end;
    if (!again) return rpc::FromGrpcStatus(status);
    absl::SleepFor(pause);
    grpc::experimental::ChannelResetConnectionBackoff(server.channel.get());
  }
}

absl::StatusOr<FollowResult> FollowJob(const Server& server, const std::string& job_id,
                                       const FollowOptions& options) {
  return Follower(server, job_id, options).Run();
}

}  // namespace libreyolo::client
