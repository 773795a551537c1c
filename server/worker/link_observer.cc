#include "server/worker/link_observer.h"

#include <chrono>

namespace libreyolo::worker {

using worker_link::WorkerStage;

LinkObserver::LinkObserver(worker_link::WorkerChannel& channel, const Clock& clock,
                           const Options& options)
    : channel_(channel),
      clock_(clock),
      options_(options),
      heartbeat_(&LinkObserver::BeatUntilStopped, this) {}

LinkObserver::~LinkObserver() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  heartbeat_.join();
}

void LinkObserver::Send(const worker_link::WorkerMessage& message) {
  sent_since_beat_.store(true, std::memory_order_relaxed);
  channel_.Send(message).IgnoreError();
}

void LinkObserver::OnStage(WorkerStage stage, absl::string_view detail) {
  Send(worker_link::StageBegan{stage, std::string(detail)});
}

void LinkObserver::OnProgress(absl::string_view stage, int64_t done, int64_t total) {
  const bool is_new = stage != progress_stage_;
  const absl::Duration now = clock_.Monotonic();
  if (!is_new && done != total && now < next_progress_) return;
  if (is_new) progress_stage_ = std::string(stage);
  next_progress_ = now + (stage == "warm-up" ? options_.progress_interval
                                             : options_.measuring_progress_interval);
  Send(worker_link::Progress{progress_stage_, done, total});
}

void LinkObserver::BeatUntilStopped() {
  const std::chrono::nanoseconds interval = absl::ToChronoNanoseconds(options_.heartbeat_interval);
  std::unique_lock lock(mu_);
  while (!stop_changed_.wait_for(lock, interval, [this] { return stop_; })) {
    if (sent_since_beat_.exchange(false)) continue;
    channel_.Send(worker_link::Heartbeat{}).IgnoreError();
  }
}

}  // namespace libreyolo::worker
