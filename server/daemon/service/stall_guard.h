// Ends a stream whose other end does nothing when it is its turn, so that nobody holds a place by
// sending or reading nothing. Thread-safe.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <mutex>

#include "absl/time/time.h"

namespace libreyolo::daemon {

class StallGuard : public std::enable_shared_from_this<StallGuard> {
 public:
  // Stop() must come before `context` is gone: in OnDone.
  static std::shared_ptr<StallGuard> Start(grpc::CallbackServerContext& context,
                                           absl::Duration patience);
  void Await();  // it is the other end's turn
  void Heard();  // it has done its part
  void Stop();

 private:
  StallGuard(grpc::CallbackServerContext& context, absl::Duration patience)
      : context_(&context), patience_(patience) {}
  void Arm();
  void Look();

  std::mutex mu_;
  grpc::CallbackServerContext* context_;  // null once stopped
  const absl::Duration patience_;
  std::unique_ptr<grpc::Alarm> alarm_;
  int64_t waiting_since_ns_ = 0;  // 0: not its turn
};

}  // namespace libreyolo::daemon
