// One unary call, with the error in our form. Blocking; no deadline, since a server may have to
// analyse a large trace first, and a lost connection ends the call by itself.
#pragma once

#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "common/rpc/status_convert.h"

namespace libreyolo::client {

template <typename Stub, typename Request, typename Response>
absl::Status Call(Stub& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response& response) {
  grpc::ClientContext context;
  return rpc::FromGrpcStatus((stub.*method)(&context, request, &response));
}

}  // namespace libreyolo::client
