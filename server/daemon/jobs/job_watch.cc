#include "server/daemon/jobs/job_watch.h"

#include <algorithm>

namespace libreyolo::daemon {

namespace v1 = ::libreyolo::profile::v1;

void JobSubscription::Push(std::shared_ptr<const v1::JobEvent> event) {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    if (ended_) return;
    if (!events_.empty() && events_.back()->job().state() == event->job().state() &&
        !IsTerminal(event->job().state())) {
      events_.back() = std::move(event);
    } else {
      ended_ = IsTerminal(event->job().state());
      events_.push_back(std::move(event));
    }
  }
  on_ready_();
}

std::shared_ptr<const v1::JobEvent> JobSubscription::Take(bool* done) {
  const std::lock_guard<std::mutex> lock(mu_);
  std::shared_ptr<const v1::JobEvent> event;
  if (!events_.empty()) {
    event = std::move(events_.front());
    events_.pop_front();
  }
  *done = ended_ && events_.empty() && event == nullptr;
  return event;
}

void JobWatchers::Add(const std::string& job_id, std::weak_ptr<JobSubscription> subscription) {
  by_job_[job_id].push_back(std::move(subscription));
}

void JobWatchers::Publish(const v1::JobEvent& event) {
  const auto it = by_job_.find(event.job().id());
  if (it == by_job_.end()) return;
  const auto shared = std::make_shared<const v1::JobEvent>(event);
  auto& watchers = it->second;
  watchers.erase(std::remove_if(watchers.begin(), watchers.end(),
                                [&](const std::weak_ptr<JobSubscription>& weak) {
                                  const auto watcher = weak.lock();
                                  if (watcher != nullptr) watcher->Push(shared);
                                  return watcher == nullptr;
                                }),
                 watchers.end());
  if (watchers.empty() || IsTerminal(event.job().state())) by_job_.erase(it);
}

size_t JobWatchers::count() const {
  size_t count = 0;
  for (const auto& [job, watchers] : by_job_) {
    for (const auto& weak : watchers) count += weak.expired() ? 0 : 1;
  }
  return count;
}

}  // namespace libreyolo::daemon
