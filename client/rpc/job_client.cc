#include "client/rpc/job_client.h"

#include <grpcpp/client_context.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/rpc/local_daemon.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kGiveUpAfter = std::chrono::seconds(60);
constexpr auto kFirstPause = milliseconds(100);
constexpr auto kLongestPause = milliseconds(5000);
constexpr int kUnaryTimeoutS = 30;

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

// SIGINT and SIGTERM as readable bytes, for its lifetime. A handler knows only globals: one
// descriptor.
int g_interrupt_fd = -1;

void OnInterrupt(int) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(g_interrupt_fd, &one, sizeof one);
}

class Interrupts {
 public:
  Interrupts() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    g_interrupt_fd = fd_.get();
    struct sigaction action {};
    action.sa_handler = &OnInterrupt;
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~Interrupts() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
    g_interrupt_fd = -1;
  }
  int fd() const { return fd_.get(); }
  int Take() {
    uint64_t count = 0;
    return read(fd_.get(), &count, sizeof count) == static_cast<ssize_t>(sizeof count)
               ? static_cast<int>(count)
               : 0;
  }

 private:
  UniqueFd fd_;
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
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

void AskCancel(const Server& server, const std::string& job_id) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(kUnaryTimeoutS));
  v1::CancelJobRequest request;
  request.set_id(job_id);
  v1::Job ignored;
  // When it does not arrive, the watch shows that too.
  (void)v1::JobService::NewStub(server.channel)->CancelJob(&context, request, &ignored);
}

// Follows one job; a class for the state that its steps share.
class Follower {
 public:
  Follower(const Server& server, std::string job_id, const FollowOptions& options)
      : server_(server), job_id_(std::move(job_id)), options_(options) {
    result_.job.set_id(job_id_);
  }

  absl::StatusOr<FollowResult> Run() {
    auto pause = milliseconds(kFirstPause);
    auto lost_since = steady_clock::time_point::max();
    for (;;) {
      std::optional<grpc::Status> end;
      const bool left = FollowStream(&end, &lost_since, &pause);
      if (left) return result_;
      const absl::Status status =
          end->ok() ? absl::UnavailableError("the stream ended") : rpc::FromGrpcStatus(*end);
      if (!absl::IsUnavailable(status) && !absl::IsCancelled(status)) return status;
      const auto now = steady_clock::now();
      if (lost_since == steady_clock::time_point::max()) {
        lost_since = now;
        if (options_.on_note) options_.on_note("connection lost, trying again");
      }
      if (now - lost_since > kGiveUpAfter) {
        return MakeError(reason::kServerUnreachable,
                         absl::StrCat("the connection was lost and did not come back; job ",
                                      job_id_, " may go on"),
                         {absl::StrCat("libreyolo jobs watch ", job_id_)}, {{"job", job_id_}});
      }
      if (WaitForInterrupt(pause)) return result_;
      pause = std::min(pause * 2, milliseconds(kLongestPause));
      RestartLocalDaemon();
    }
  }

 private:
  // True when following is over.
  bool FollowStream(std::optional<grpc::Status>* end, steady_clock::time_point* lost_since,
                    milliseconds* pause) {
    WatchStream stream(server_, job_id_, result_.job.sequence());
    for (;;) {
      pollfd waiting[] = {{stream.fd(), POLLIN, 0}, {interrupts_.fd(), POLLIN, 0}};
      poll(waiting, 2, -1);
      if (HandleInterrupts()) return true;
      for (v1::JobEvent& event : stream.Take(end)) {
        if (*lost_since != steady_clock::time_point::max()) {
          *lost_since = steady_clock::time_point::max();
          *pause = kFirstPause;
          if (options_.on_note) options_.on_note("connected again");
        }
        result_.job = std::move(*event.mutable_job());
        result_.job.set_sequence(event.sequence());
        if (options_.on_event) options_.on_event(result_.job);
        if (IsTerminal(result_.job.state())) return true;
      }
      if (end->has_value()) return false;
    }
  }

  // True when the user wants to leave now.
  bool HandleInterrupts() {
    for (int count = interrupts_.Take(); count > 0; --count) {
      if (result_.interrupted || !options_.cancel_on_interrupt) {
        result_.interrupted = true;
        result_.end = FollowEnd::kInterrupted;
        return true;
      }
      result_.interrupted = true;
      if (options_.on_note) options_.on_note("cancelling; interrupt again to leave at once");
      AskCancel(server_, job_id_);
    }
    return false;
  }

  bool WaitForInterrupt(milliseconds pause) {
    pollfd waiting{interrupts_.fd(), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(pause.count()));
    return HandleInterrupts();
  }

  // A local daemon that died is started again; it knows what became of the job.
  void RestartLocalDaemon() {
    if (!server_.local) return;
    const auto place = FindLocalDaemonPlace();
    if (place.ok() && !IsListening(place->socket_path)) (void)StartLocalDaemon(*place);
  }

  const Server& server_;
  const std::string job_id_;
  const FollowOptions& options_;
  Interrupts interrupts_;
  FollowResult result_;
};

}  // namespace

std::string NewRequestId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

absl::StatusOr<v1::Job> CreateJob(const Server& server, const v1::JobSpec& spec,
                                  const std::string& request_id) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(kUnaryTimeoutS));
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  v1::Job job;
  const grpc::Status status =
      v1::JobService::NewStub(server.channel)->CreateJob(&context, request, &job);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return job;
}

absl::StatusOr<FollowResult> FollowJob(const Server& server, const std::string& job_id,
                                       const FollowOptions& options) {
  return Follower(server, job_id, options).Run();
}

}  // namespace libreyolo::client
