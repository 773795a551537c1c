// Sees every call from its headers to its status, of our services and gRPC's own: gives it a
// request id, which goes back to the caller and into the log, and tells whoever counts how it
// ended.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace libreyolo::daemon {

// Trailing metadata of every call: the id under which the log knows it.
inline constexpr char kRequestIdKey[] = "x-libreyolo-request-id";

// Told of calls, on gRPC's threads. Outlives the server.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // "JobService/GetJob", or "other" for a method that is none of ours.
  virtual void CallBegan(absl::string_view method) = 0;
  // `code` is the status's: "OK", "NOT_FOUND".
  virtual void CallEnded(absl::string_view method, absl::string_view code, absl::Duration took) = 0;
};

// For ServerBuilder::experimental().SetInterceptorCreators. With `name_in_errors` an error also
// carries the id for people, as google.rpc.RequestInfo.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallWatch(
    CallObserver& observer, bool name_in_errors);

// The id that the watch gave this call; empty without a watch.
std::string RequestIdOf(const grpc::CallbackServerContext& context);

}  // namespace libreyolo::daemon
