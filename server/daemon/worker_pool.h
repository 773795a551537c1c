// Threads that do the daemon's blocking work: parsing, analysis, commits. While a job measures,
// work goes to a thread of idle priority, so that reading a profile does not disturb the
// measurement.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

class WorkerPool : public Executor {
 public:
  explicit WorkerPool(int thread_count);
  // Finishes what was submitted.
  ~WorkerPool() override;

  void Submit(std::function<void()> work) override;
  // Any thread. While quiet, new work runs on the idle-priority thread alone.
  void SetQuiet(bool quiet) { quiet_ = quiet; }

 private:
  struct Queue {
    std::mutex mu;
    std::condition_variable ready;
    std::deque<std::function<void()>> work;
    bool closing = false;
  };
  static void Drain(Queue& queue);

  std::atomic<bool> quiet_{false};
  Queue normal_;
  Queue idle_;
  std::vector<std::thread> threads_;
};

}  // namespace libreyolo::daemon
