// Tells the daemon how far the workload is, and that the process lives. The workload's thread
// reports through it; a thread of its own sends a heartbeat whenever nothing else was sent for a
// while.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/worker/workload/workload.h"
#include "server/worker_link/worker_channel.h"

namespace libreyolo::worker {

class LinkObserver : public WorkloadObserver {
 public:
  struct Options {
    absl::Duration heartbeat_interval = absl::Seconds(5);
    // Between two progress messages. The daemon and the client wake up for each of them, on the
    // CPUs that are being measured: rarely while times are taken.
    absl::Duration progress_interval = absl::Milliseconds(100);
    absl::Duration measuring_progress_interval = absl::Milliseconds(500);
  };

  // `channel` and `clock` outlive the observer.
  LinkObserver(worker_link::WorkerChannel& channel, const Clock& clock, const Options& options);
  // Ends the heartbeat.
  ~LinkObserver() override;

  // A message that cannot be sent is dropped: the thread that reads the link finds out that the
  // daemon is gone, and ends the process.
  void OnStage(worker_link::WorkerStage stage, absl::string_view detail) override;
  void OnProgress(absl::string_view stage, int64_t done, int64_t total) override;
  bool IsCancelled() const override { return cancelled_.load(std::memory_order_relaxed); }

  // From the thread that reads the link.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  void Send(const worker_link::WorkerMessage& message);
  void BeatUntilStopped();

  worker_link::WorkerChannel& channel_;
  const Clock& clock_;
  const Options options_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> sent_since_beat_{false};
  // Of the workload's thread.
  absl::Duration next_progress_ = absl::ZeroDuration();
  std::string progress_stage_;

  std::mutex mu_;
  std::condition_variable stop_changed_;
  bool stop_ = false;  // guarded by mu_
  std::thread heartbeat_;
};

}  // namespace libreyolo::worker
