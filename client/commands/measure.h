// What `infer` and `run` share: the job they ask for, following it, and its result.
#pragma once

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/render/progress.h"
#include "libreyolo/profile/v1/job.pb.h"

namespace libreyolo::client {

// How progress is to look: nothing under --json, a bar on a terminal unless NO_COLOR or TERM=dumb.
ProgressStyle ProgressStyleOf(const Context& context);

// The flags that both commands have. Only what was typed is set, so that the server knows it.
// Weights that are the client's own file go up when the server is remote.
absl::Status FillCommonSpec(const Context& context, const Server& server, ProgressView& progress,
                            profile::v1::JobSpec& spec);

// Submits `spec`, follows the job unless --detach, and prints the result. 130 after Ctrl-C.
absl::StatusOr<int> Measure(const Context& context, const Server& server, ProgressView& progress,
                            const profile::v1::JobSpec& spec);

// The error of a job that ended FAILED or CANCELLED.
absl::Status JobError(const profile::v1::Job& job);

}  // namespace libreyolo::client
