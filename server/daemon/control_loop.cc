#include "server/daemon/control_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace libreyolo::daemon {
namespace {
absl::Duration Now() { return absl::Nanoseconds(MonotonicNs()); }
}  // namespace

ControlLoop::ControlLoop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LY_CHECK(epoll_ && wakeup_) << "no descriptors left";
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wakeup_.get();
  LY_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event) == 0);
}

void ControlLoop::Post(Task task) {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    posted_.push_back(std::move(task));
  }
  const uint64_t one = 1;
  // A full counter already wakes the loop.
  [[maybe_unused]] const ssize_t ignored = write(wakeup_.get(), &one, sizeof one);
}

void ControlLoop::Stop() {
  Post([this] {
    const std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  });
}

TaskRunner::TimerId ControlLoop::RunAfter(absl::Duration delay, Task task) {
  const TimerId id = next_timer_++;
  const absl::Duration when = Now() + std::max(delay, absl::ZeroDuration());
  timers_.emplace(std::make_pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

void ControlLoop::CancelTimer(TimerId timer) {
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return;
  timers_.erase({it->second, timer});
  timer_times_.erase(it);
}

void ControlLoop::WatchFd(int fd, FdCallback callback) {
  watched_[fd] = std::move(callback);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  LY_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) << "fd " << fd;
}

void ControlLoop::UnwatchFd(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void ControlLoop::RunDueTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= Now()) {
    Task task = std::move(timers_.begin()->second);
    timer_times_.erase(timers_.begin()->first.second);
    timers_.erase(timers_.begin());
    task();
  }
}

void ControlLoop::RunPostedTasks() {
  std::vector<Task> tasks;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) task();
}

int ControlLoop::WaitMs() const {
  if (timers_.empty()) return -1;
  const int64_t ms = absl::ToInt64Milliseconds(timers_.begin()->first.first - Now()) + 1;
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000));
}

void ControlLoop::Run() {
  for (;;) {
    std::array<epoll_event, 32> events;
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), WaitMs());
    LY_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wakeup_.get()) {
        uint64_t ignored;
        [[maybe_unused]] const ssize_t got = read(fd, &ignored, sizeof ignored);
        continue;
      }
      // An earlier callback of this round may have dropped the watch.
      const auto it = watched_.find(fd);
      if (it == watched_.end()) continue;
      const FdCallback callback = it->second;
      callback(events[static_cast<size_t>(i)].events);
    }
    RunPostedTasks();
    RunDueTimers();
    const std::lock_guard<std::mutex> lock(mu_);
    if (stop_ && posted_.empty()) return;
  }
}

}  // namespace libreyolo::daemon
