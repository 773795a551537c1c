// From the wire's JobSpec to the checked one: the one place where defaults are filled in and ranges
// are checked. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/job_spec.h"
#include "libreyolo/profile/v1/job.pb.h"

namespace libreyolo::rpc {

//   ARGUMENT_INVALID, ARGUMENT_OUT_OF_RANGE, ARGUMENT_CONFLICT  the message names the flag and what
//   it takes PROJECT_REFUSED                                             the project is no relative
//   path inside the workspace
absl::StatusOr<job::JobSpec> ParseJobSpec(const profile::v1::JobSpec& spec);

}  // namespace libreyolo::rpc
