// Whether the wall clock can be believed: it may be set, by a person or by the network, to any
// time. It is believed once it has kept pace with the monotonic clock for a while. Not thread-safe.
#pragma once

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace libreyolo::daemon {

class SteadyWall {
 public:
  // From here on it is looked at.
  explicit SteadyWall(const Clock& clock);

  // Looks at the clocks. How long the wall clock has been steady as far as is known: a step between
  // two looks, by more than slow correction explains, starts it anew.
  absl::Duration Observe();

 private:
  absl::Time StartOfMonotonic() const;

  const Clock& clock_;
  absl::Time start_;      // of the monotonic clock, by the wall clock, at the last look
  absl::Duration since_;  // monotonic
};

}  // namespace libreyolo::daemon
