// Time as the project sees it. Monotonic time is for durations and timers, wall time only for what
// people read.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace libreyolo {

// Thread-safe. Tests hand in a simulated one (tests/support/simulated_clock.h).
class Clock {
 public:
  virtual ~Clock() = default;
  // Time since an arbitrary start, never going back; not affected by clock steps.
  virtual absl::Duration Monotonic() const = 0;
  virtual absl::Time Wall() const = 0;
};

class SystemClock : public Clock {
 public:
  absl::Duration Monotonic() const override;
  absl::Time Wall() const override;
};

// CLOCK_MONOTONIC in nanoseconds: what trace time stamps count in.
int64_t MonotonicNs();

}  // namespace libreyolo
