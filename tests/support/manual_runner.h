// Time and threads that a test moves by hand: tasks and timers run when it says so, blocking work
// when it says so, and time stands still otherwise. For one thread.
//
//   ManualRunner runner;
//   runner.RunAfter(absl::Seconds(60), [&] { rang = true; });
//   runner.Advance(absl::Seconds(61));   // rings
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::testing {

class ManualRunner : public daemon::TaskRunner, public Clock {
 public:
  void Post(Task task) override { posted_.push_back(std::move(task)); }
  TimerId RunAfter(absl::Duration delay, Task task) override {
    timers_[{now_ + delay, ++last_timer_}] = std::move(task);
    return last_timer_;
  }
  void CancelTimer(TimerId timer) override {
    for (auto it = timers_.begin(); it != timers_.end(); ++it) {
      if (it->first.second != timer) continue;
      timers_.erase(it);
      return;
    }
  }
  absl::Duration Monotonic() const override { return now_; }
  absl::Time Wall() const override { return absl::FromUnixSeconds(1'800'000'000) + now_; }

  // Runs what was posted, and what that posts.
  void RunPosted() {
    while (!posted_.empty()) {
      Task task = std::move(posted_.front());
      posted_.pop_front();
      task();
    }
  }
  // Lets time pass, with the timers that are due in order.
  void Advance(absl::Duration by) {
    const absl::Duration end = now_ + by;
    RunPosted();
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      now_ = timers_.begin()->first.first;
      Task task = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      task();
      RunPosted();
    }
    now_ = end;
  }
  size_t timer_count() const { return timers_.size(); }

 private:
  std::deque<Task> posted_;
  std::map<std::pair<absl::Duration, TimerId>, Task> timers_;
  TimerId last_timer_ = 0;
  absl::Duration now_;
};

class ManualExecutor : public daemon::Executor {
 public:
  void SubmitFor(const std::string&, std::function<void()> work) override {
    work_.push_back(std::move(work));
  }
  size_t pending() const { return work_.size(); }
  void RunOne() {
    auto work = std::move(work_.front());
    work_.pop_front();
    work();
  }

 private:
  std::deque<std::function<void()>> work_;
};

}  // namespace libreyolo::testing
