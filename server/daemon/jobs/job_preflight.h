// What can be known of a job before it is queued: its device, weights, source and project folder.
// Looks only; downloads nothing and leaves nothing behind. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/job/job_spec.h"

namespace libreyolo::daemon {

class JobPreflight {
 public:
  virtual ~JobPreflight() = default;
  // The device's id ("cpu", "cuda:0"). Errors: WEIGHTS_*, SOURCE_*, DATASET_*, DEVICE_*, PROJECT_*,
  // PATH_REFUSED, UNIMPLEMENTED.
  virtual absl::StatusOr<std::string> Check(const job::JobSpec& spec, bool local_owner) = 0;
};

}  // namespace libreyolo::daemon
