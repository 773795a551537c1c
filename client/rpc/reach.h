// Why a server is not reached, and what its TLS looks like: gRPC says little more than that it did
// not work. Opens connections of its own, without any gRPC; blocks for seconds; one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/rpc/server_choice.h"

namespace libreyolo::client {

// What a TLS server showed.
struct TlsReport {
  std::string version;  // "TLSv1.3"
  absl::Time not_after;
  std::string subject;  // the certificate's common name, may be empty
};

// Goes the way to `address` ("host:port" or "[v6]:port") step by step: the name, the connection,
// with `security.tls` the handshake. SERVER_UNREACHABLE says which step failed and its own ways
// out:
//   an unknown name; nobody listens, or no answer; a port without TLS, or with an older one; a
//   certificate that expired, is for another name, or whose authority is not known
absl::StatusOr<TlsReport> ProbeServer(const std::string& address, const ChannelSecurity& security);

}  // namespace libreyolo::client
