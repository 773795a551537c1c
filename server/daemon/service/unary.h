// How a handler answers from another thread: the caller is admitted, then the work runs on the
// control thread or on the executor and finishes the call from there. gRPC's own threads never
// block.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>
#include <utility>

#include "server/daemon/service/caller.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

inline grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext& context,
                                        const absl::Status& status) {
  auto* reactor = context.DefaultReactor();
  reactor->Finish(rpc::ToGrpcStatus(status));
  return reactor;
}

// A stream that ends before it began.
template <typename Reactor>
class RefusedStream : public Reactor {
 public:
  explicit RefusedStream(const absl::Status& status) { this->Finish(rpc::ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

namespace internal {
inline void Enqueue(TaskRunner& runner, const std::string&, std::function<void()> task) {
  runner.Post(std::move(task));
}
inline void Enqueue(Executor& executor, const std::string& principal, std::function<void()> task) {
  executor.SubmitFor(principal, std::move(task));
}
}  // namespace internal

// Runs `work` (const Caller& -> absl::Status) on `queue` (a TaskRunner or an Executor) for a caller
// that may, and finishes the call with what it gave.
template <typename Queue, typename Work>
grpc::ServerUnaryReactor* AnswerOn(Queue& queue, CallGate& gate,
                                   grpc::CallbackServerContext& context, Access access, Work work) {
  absl::StatusOr<Caller> caller = gate.Admit(context, access);
  if (!caller.ok()) return Refuse(context, caller.status());
  auto* reactor = context.DefaultReactor();
  auto active = std::make_shared<ActiveCall>(gate.activity());
  // The context lives until the call is finished.
  caller->is_cancelled = [&context] { return context.IsCancelled(); };
  const std::string principal = caller->principal;
  internal::Enqueue(queue, principal,
                    [reactor, active, access = std::move(access), caller = *std::move(caller),
                     work = std::move(work)]() mutable {
                      // Whoever asked may have gone while others were served.
                      const absl::Status status = caller.is_cancelled()
                                                      ? absl::CancelledError("the caller has gone")
                                                      : work(static_cast<const Caller&>(caller));
                      CallGate::Audit(caller, access, status);
                      reactor->Finish(rpc::ToGrpcStatus(status));
                    });
  return reactor;
}

}  // namespace libreyolo::daemon
