// Submits a job and follows it to its end, over lost connections and Ctrl-C.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/rpc/channel.h"
#include "libreyolo/profile/v1/job.pb.h"

namespace libreyolo::client {

// A random id for CreateJob: a request that is repeated after a lost connection gives the same job.
std::string NewRequestId();

// Tried again for some seconds when the connection is lost, with the same id.
absl::StatusOr<profile::v1::Job> CreateJob(const Server& server, const profile::v1::JobSpec& spec,
                                           const std::string& request_id);

struct FollowOptions {
  // Called for every event, on the calling thread.
  std::function<void(const profile::v1::Job& job)> on_event;
  // Called once when the connection is lost and once when it is back, with a text for people.
  std::function<void(const std::string& text)> on_note;
  // Ctrl-C asks the server to cancel and goes on following; a second one leaves at once. False for
  // `jobs watch`, where Ctrl-C just leaves.
  bool cancel_on_interrupt = true;
  // How long a lost connection is tried again.
  absl::Duration give_up_after = absl::Seconds(60);
};

enum class FollowEnd { kTerminal, kInterrupted };

struct FollowResult {
  profile::v1::Job job;  // the last that was seen
  FollowEnd end = FollowEnd::kTerminal;
  bool interrupted = false;  // Ctrl-C was pressed at all: exit 130
  // The server has confirmed that it heard of the cancellation.
  bool cancel_confirmed = false;
};

// Returns once the job is terminal, or when the user leaves. A lost connection is tried again with
// growing pauses, then SERVER_UNREACHABLE with the job's id. While it runs, SIGINT and SIGTERM are
// its own, unless they were ignored before; one call at a time in a process.
absl::StatusOr<FollowResult> FollowJob(const Server& server, const std::string& job_id,
                                       const FollowOptions& options);

}  // namespace libreyolo::client
