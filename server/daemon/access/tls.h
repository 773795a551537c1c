// TLS of the served address: 1.3 only, certificates read again when their files change.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace libreyolo::daemon {

struct TlsFiles {
  std::string certificate;  // PEM, the chain; empty: no TLS
  std::string key;          // PEM
  std::string client_ca;    // PEM; empty: no client certificates
};

// What clients see of a certificate.
struct CertificateInfo {
  absl::Time not_after;
  std::vector<std::string> names;  // hosts and addresses that it is for
};
// Of the first certificate in a PEM file. InvalidArgument for a file without one.
absl::StatusOr<CertificateInfo> ReadCertificate(const std::string& path);

// Call in main() before any thread starts: gRPC of this version can only name the cipher suites of
// TLS 1.2, so that it is left none that anybody could use.
void AllowTls13Only();

// `require_certificate`: without a client certificate nobody gets through the handshake; else one
// is verified when it is given. InvalidArgument says which file cannot be used and why: a key that
// does not belong to the certificate, or that others may read.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(
    const TlsFiles& files, bool require_certificate);

}  // namespace libreyolo::daemon
