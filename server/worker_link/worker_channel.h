// Both ends of the link between daemon and worker.
//
// The worker blocks on its end:
//   WorkerChannel channel(UniqueFd(kWorkerLinkFd));
//   LY_RETURN_IF_ERROR(channel.Send(Hello{BuildId(), getpid()}));
//   LY_ASSIGN_OR_RETURN(DaemonMessage message, channel.Receive());
// The daemon's end is event-driven (server/daemon/launch/worker_session.h) and uses the Encode and
// Decode functions.
#pragma once

#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"
#include "server/worker_link/frame.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::worker_link {

// The descriptor on which a worker finds its end.
inline constexpr int kWorkerLinkFd = 3;

// Payloads of frames. Decode gives InvalidArgument for bytes that are no such message.
std::string EncodePayload(const WorkerMessage& message);
std::string EncodePayload(const DaemonMessage& message);
absl::StatusOr<WorkerMessage> DecodeWorkerMessage(absl::string_view payload);
absl::StatusOr<DaemonMessage> DecodeDaemonMessage(absl::string_view payload);

// The worker's end. Send may be called from several threads; Receive from one.
class WorkerChannel {
 public:
  explicit WorkerChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  // Blocks until the message is written. Unavailable when the daemon is gone. SIGPIPE is not
  // raised.
  absl::Status Send(const WorkerMessage& message);
  // Blocks for the next message. Unavailable at end of file: the daemon is gone.
  absl::StatusOr<DaemonMessage> Receive();

 private:
  UniqueFd fd_;
  std::mutex send_mu_;  // a frame is written whole
  FrameDecoder decoder_;
};

}  // namespace libreyolo::worker_link
