// Errors across gRPC: reason, hints and metadata travel as google.rpc.ErrorInfo and Help in the
// status details, so that nothing is lost between the daemon's absl::Status and the client's. Pure;
// safe from any thread.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace libreyolo::rpc {

// The fact of an error that names the call in the server's log, where the server told it.
inline constexpr char kRequestIdFact[] = "request_id";

grpc::Status ToGrpcStatus(const absl::Status& status);

// A status without our details (gRPC's own, a proxy's) keeps its code and text and gets a reason
// from its code.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace libreyolo::rpc
