// The activity source of a job without a GPU: there is nothing to see and nothing to lose.
#pragma once

#include "server/worker/capture/activity_source.h"

namespace libreyolo::worker {

class NullSource : public ActivitySource {
 public:
  absl::Status Start(RecordSink&) override { return absl::OkStatus(); }
  absl::StatusOr<CaptureLoss> Stop() override { return CaptureLoss{}; }
};

}  // namespace libreyolo::worker
