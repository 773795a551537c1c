// Threads that do the daemon's blocking work: parsing, analysis, commits. Those who asked for it
// take turns. While a job measures, work goes to a thread of idle priority, so that reading a
// profile does not disturb the measurement.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/daemon/fair_queue.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

class WorkerPool : public Executor {
 public:
  // Of each principal's work at most `max_of_one` pieces are done at once; 0: as many as there are
  // threads. The thread of idle priority is one alone: there it is turns that count.
  explicit WorkerPool(int thread_count, int max_of_one = 0);
  // Finishes what was submitted.
  ~WorkerPool() override;

  void SubmitFor(const std::string& principal, std::function<void()> work) override;
  // Any thread. While quiet, new work runs on the idle-priority thread alone.
  void SetQuiet(bool quiet) { quiet_ = quiet; }

 private:
  struct Queue {
    explicit Queue(int max_of_one) : work(max_of_one) {}
    std::mutex mu;  // guards the rest
    std::condition_variable ready;
    FairQueue work;
    bool closing = false;
  };
  static void Drain(Queue& queue);

  std::atomic<bool> quiet_{false};
  Queue normal_;
  Queue idle_{0};
  std::vector<std::thread> threads_;
};

}  // namespace libreyolo::daemon
