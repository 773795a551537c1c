#include "server/daemon/store/steady_wall.h"

#include "common/base/log.h"

namespace libreyolo::daemon {
namespace {

// A clock that is slewed gains or loses half a second in a quarter of an hour.
constexpr absl::Duration kTolerance = absl::Seconds(30);

}  // namespace

SteadyWall::SteadyWall(const Clock& clock)
    : clock_(clock), start_(StartOfMonotonic()), since_(clock.Monotonic()) {}

absl::Time SteadyWall::StartOfMonotonic() const { return clock_.Wall() - clock_.Monotonic(); }

absl::Duration SteadyWall::Observe() {
  const absl::Duration step = StartOfMonotonic() - start_;
  start_ += step;
  if (absl::AbsDuration(step) > kTolerance) {
    since_ = clock_.Monotonic();
    LogWarning("the wall clock was set", {{"by_s", absl::ToInt64Seconds(step)}});
  }
  return clock_.Monotonic() - since_;
}

}  // namespace libreyolo::daemon
