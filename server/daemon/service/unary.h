// How a unary handler answers from another thread: the work runs on the control thread or on the
// executor, and finishes the call from there. gRPC's own threads never block.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "server/daemon/service/caller.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

// Runs `work` (-> absl::Status) on `runner` (anything with Post) or `executor` (Submit) and
// finishes the call with it.
template <typename Work>
grpc::ServerUnaryReactor* AnswerOn(TaskRunner& runner, CallGate& gate,
                                   grpc::CallbackServerContext& context, Work work) {
  auto* reactor = context.DefaultReactor();
  auto active = std::make_shared<ActiveCall>(gate.activity());
  runner.Post([reactor, active, work = std::move(work)]() mutable {
    reactor->Finish(rpc::ToGrpcStatus(work()));
  });
  return reactor;
}

template <typename Work>
grpc::ServerUnaryReactor* AnswerOn(Executor& executor, CallGate& gate,
                                   grpc::CallbackServerContext& context, Work work) {
  auto* reactor = context.DefaultReactor();
  auto active = std::make_shared<ActiveCall>(gate.activity());
  executor.Submit([reactor, active, work = std::move(work)]() mutable {
    reactor->Finish(rpc::ToGrpcStatus(work()));
  });
  return reactor;
}

}  // namespace libreyolo::daemon
