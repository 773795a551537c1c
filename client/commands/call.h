// One unary call, with the error in our form. Blocking; no deadline, since a server may have to
// analyse a large trace first, and a lost connection ends the call by itself.
#pragma once

#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/rpc/status_convert.h"

namespace libreyolo::client {

// How a call ended.
inline absl::Status StatusOfCall(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details().empty()) {
    return MakeError(
        reason::kServerUnreachable,
        absl::StrCat("the connection to the server was lost: ", status.error_message()),
        {"run the command again; a job that was submitted goes on: libreyolo jobs list",
         "libreyolo doctor says what ails the server"});
  }
  return rpc::FromGrpcStatus(status);
}

template <typename Stub, typename Request, typename Response>
absl::Status Call(Stub& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response& response) {
  grpc::ClientContext context;
  return StatusOfCall((stub.*method)(&context, request, &response));
}

}  // namespace libreyolo::client
