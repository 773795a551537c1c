// TLS of the served address: 1.3 only, certificates read again when their files change.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
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

// InvalidArgument says which file cannot be used and why: a key that does not belong to the
// certificate, or that others may read.
absl::Status CheckTlsFiles(const TlsFiles& files);

// Hands gRPC the files that are in force: copies in a folder of its own, which are replaced, all at
// once, when the files have changed and are good. gRPC itself ends the process over an empty file,
// and would take a certificate before its key. A renewal that is of no use is logged, and the
// server goes on with what it had.
class TlsReloader {
 public:
  // `folder` is made, private; what is in it is replaced.
  static absl::StatusOr<std::unique_ptr<TlsReloader>> Start(const TlsFiles& files,
                                                            const std::string& folder);
  ~TlsReloader();

  // `require_certificate`: without a client certificate nobody gets through the handshake; else one
  // is verified when it is given.
  std::shared_ptr<grpc::ServerCredentials> MakeCredentials(bool require_certificate) const;

 private:
  TlsReloader(TlsFiles files, std::string folder)
      : files_(std::move(files)), folder_(std::move(folder)) {}
  absl::Status Publish();
  void Watch();
  std::string Signature() const;
  std::string Current(const char* name) const;

  const TlsFiles files_;
  const std::string folder_;
  int published_ = 0;
  std::string signature_;  // of the files that were looked at last
  std::mutex mu_;
  std::condition_variable wake_;
  bool ends_ = false;  // guarded by mu_
  std::thread thread_;
};

}  // namespace libreyolo::daemon
