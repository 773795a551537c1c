#include "common/base/clock.h"

#include <time.h>

#include "absl/time/clock.h"

namespace libreyolo {

int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

absl::Duration SystemClock::Monotonic() const { return absl::Nanoseconds(MonotonicNs()); }

absl::Time SystemClock::Wall() const { return absl::Now(); }

}  // namespace libreyolo
