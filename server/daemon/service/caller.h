// Who calls, and what every handler of the API does first: see that the caller may, tell its own
// build, note the activity that keeps a local daemon from ending. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/rpc/status_convert.h"

namespace libreyolo::daemon {

struct Caller {
  std::string principal;
  // The user who owns a local daemon: may name files of this machine by path.
  bool local_owner = false;
};

// Calls under way and the time of the last one.
class Activity {
 public:
  void Begin() { ++open_; }
  void End() {
    last_ns_ = MonotonicNs();
    --open_;
  }
  int open() const { return open_; }
  absl::Duration IdleFor() const {
    return open_ > 0 ? absl::ZeroDuration() : absl::Nanoseconds(MonotonicNs() - last_ns_);
  }

 private:
  std::atomic<int> open_{0};
  std::atomic<int64_t> last_ns_{MonotonicNs()};
};

// Marks one call for its lifetime.
class ActiveCall {
 public:
  explicit ActiveCall(Activity& activity) : activity_(activity) { activity_.Begin(); }
  ~ActiveCall() { activity_.End(); }
  ActiveCall(const ActiveCall&) = delete;
  ActiveCall& operator=(const ActiveCall&) = delete;

 private:
  Activity& activity_;
};

// What the services share. Outlives them.
class CallGate {
 public:
  CallGate(bool local, std::string build_id) : local_(local), build_id_(std::move(build_id)) {}

  Caller Admit(grpc::CallbackServerContext& context) const {
    // Clients compare it with their own, without a call of its own.
    context.AddInitialMetadata("x-libreyolo-build", build_id_);
    return {local_ ? "owner" : "default", local_};
  }
  Activity& activity() { return activity_; }

 private:
  const bool local_;
  const std::string build_id_;
  Activity activity_;
};

}  // namespace libreyolo::daemon
