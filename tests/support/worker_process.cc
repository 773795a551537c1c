#include "tests/support/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::testing {

using worker_link::kWorkerLinkFd;
using worker_link::WorkerMessage;

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const std::string& executable) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "make", "a socket pair");
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork for", executable);
  if (pid == 0) {
    // dup2 onto itself would keep close-on-exec.
    if (theirs.get() == kWorkerLinkFd) fcntl(kWorkerLinkFd, F_SETFD, 0);
    if (theirs.get() != kWorkerLinkFd) dup2(theirs.get(), kWorkerLinkFd);
    execl(executable.c_str(), executable.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  return absl::WrapUnique(new WorkerProcess(pid, std::move(ours)));
}

WorkerProcess::~WorkerProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

absl::Status WorkerProcess::Send(const worker_link::DaemonMessage& message) {
  const std::string frame = worker_link::EncodeFrame(worker_link::EncodePayload(message));
  size_t sent = 0;
  while (sent < frame.size()) {
    const ssize_t n = send(link_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return ErrnoStatus(errno, "send to", "the worker");
    if (n > 0) sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerMessage> WorkerProcess::Receive() {
  for (;;) {
    LY_ASSIGN_OR_RETURN(std::optional<std::string> payload, decoder_.Next());
    if (payload.has_value()) return worker_link::DecodeWorkerMessage(*payload);
    char bytes[4096];
    const ssize_t n = recv(link_.get(), bytes, sizeof bytes, 0);
    if (n == 0) return absl::UnavailableError("the worker closed the link");
    if (n < 0 && errno != EINTR) return ErrnoStatus(errno, "receive from", "the worker");
    if (n > 0) decoder_.Feed(absl::string_view(bytes, static_cast<size_t>(n)));
  }
}

absl::StatusOr<std::vector<WorkerMessage>> WorkerProcess::ReceiveToLast() {
  std::vector<WorkerMessage> messages;
  for (;;) {
    LY_ASSIGN_OR_RETURN(WorkerMessage message, Receive());
    messages.push_back(std::move(message));
    if (std::holds_alternative<worker_link::Finished>(messages.back())) return messages;
    if (std::holds_alternative<worker_link::Failed>(messages.back())) return messages;
  }
}

int WorkerProcess::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

}  // namespace libreyolo::testing
