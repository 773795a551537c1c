// The daemon's one event loop: tasks from other threads, timers, and readiness of descriptors, by
// epoll.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/base/unique_fd.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

class ControlLoop : public TaskRunner {
 public:
  // `events` as of epoll (EPOLLIN, EPOLLHUP ...).
  using FdCallback = std::function<void(uint32_t events)>;

  ControlLoop();

  // Runs on the calling thread until Stop().
  void Run();
  // Any thread; tasks posted before still run.
  void Stop();

  void Post(Task task) override;
  TimerId RunAfter(absl::Duration delay, Task task) override;
  void CancelTimer(TimerId timer) override;

  // Calls `callback` whenever `fd` is readable or hung up, until UnwatchFd. The caller keeps `fd`
  // open meanwhile.
  void WatchFd(int fd, FdCallback callback);
  void UnwatchFd(int fd);

 private:
  void RunDueTimers();
  void RunPostedTasks();
  int WaitMs() const;

  UniqueFd epoll_;
  UniqueFd wakeup_;
  std::unordered_map<int, FdCallback> watched_;
  std::map<std::pair<absl::Duration, TimerId>, Task> timers_;  // by time, then order of creation
  std::unordered_map<TimerId, absl::Duration> timer_times_;
  TimerId next_timer_ = 1;

  std::mutex mu_;  // guards posted_ and stop_
  std::vector<Task> posted_;
  bool stop_ = false;
};

}  // namespace libreyolo::daemon
