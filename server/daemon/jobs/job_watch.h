// Who watches which job. Publishing happens on the control thread; subscribers take events from any
// thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "libreyolo/profile/v1/job.pb.h"
#include "server/daemon/jobs/job_store.h"

namespace libreyolo::daemon {

// One watcher's queue. A slow watcher costs little: of events that only tell progress the newest is
// kept, changes of state are all kept (a job has few).
class JobSubscription {
 public:
  // `on_ready` is called (on the publishing thread, without locks held) when an event may be taken;
  // it must not block.
  explicit JobSubscription(std::function<void()> on_ready) : on_ready_(std::move(on_ready)) {}

  void Push(std::shared_ptr<const profile::v1::JobEvent> event);
  // The next event, or null. `*done` tells that no more will come.
  std::shared_ptr<const profile::v1::JobEvent> Take(bool* done);

 private:
  const std::function<void()> on_ready_;
  std::mutex mu_;
  std::deque<std::shared_ptr<const profile::v1::JobEvent>> events_;
  bool ended_ = false;  // the terminal event was pushed
};

// Control thread only.
class JobWatchers {
 public:
  void Add(const std::string& job_id, std::weak_ptr<JobSubscription> subscription);
  // Hands the event to every watcher of its job.
  void Publish(const profile::v1::JobEvent& event);
  size_t count() const;

 private:
  std::unordered_map<std::string, std::vector<std::weak_ptr<JobSubscription>>> by_job_;
};

}  // namespace libreyolo::daemon
