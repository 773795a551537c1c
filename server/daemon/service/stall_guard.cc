#include "server/daemon/service/stall_guard.h"

#include <chrono>

#include "common/base/clock.h"
#include "common/base/log.h"

namespace libreyolo::daemon {

std::shared_ptr<StallGuard> StallGuard::Start(grpc::CallbackServerContext& context,
                                              absl::Duration patience) {
  std::shared_ptr<StallGuard> guard(new StallGuard(context, patience));
  const std::lock_guard<std::mutex> lock(guard->mu_);
  guard->Arm();
  return guard;
}

void StallGuard::Await() {
  const std::lock_guard<std::mutex> lock(mu_);
  waiting_since_ns_ = MonotonicNs();
}

void StallGuard::Heard() {
  const std::lock_guard<std::mutex> lock(mu_);
  waiting_since_ns_ = 0;
}

void StallGuard::Stop() {
  std::unique_ptr<grpc::Alarm> alarm;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    context_ = nullptr;
    alarm = std::move(alarm_);
  }
  // Cancels it; its callback still comes, and finds nothing to do.
}

void StallGuard::Arm() {
  alarm_ = std::make_unique<grpc::Alarm>();
  // Looks twice in the time that is given.
  alarm_->Set(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(patience_ / 2),
              [self = shared_from_this()](bool) { self->Look(); });
}

void StallGuard::Look() {
  const std::lock_guard<std::mutex> lock(mu_);
  if (context_ == nullptr) return;
  const int64_t waited_ns = waiting_since_ns_ == 0 ? 0 : MonotonicNs() - waiting_since_ns_;
  if (waited_ns >= absl::ToInt64Nanoseconds(patience_)) {
    LogWarning("stream ended: its other end does nothing",
               {{"peer", context_->peer()}, {"seconds", waited_ns / 1'000'000'000}});
    context_->TryCancel();
    return;
  }
  Arm();
}

}  // namespace libreyolo::daemon
