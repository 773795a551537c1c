// The gRPC server behind all listening addresses: who gets in where, and within which limits.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/daemon/access/accounts.h"
#include "server/daemon/access/tls.h"
#include "server/daemon/door.h"
#include "server/daemon/health.h"
#include "server/daemon/launch/worker_processes.h"
#include "server/daemon/listen.h"
#include "server/daemon/service/call_watch.h"

namespace libreyolo::daemon {

class ApiServer {
 public:
  struct Options {
    std::vector<ListenAddress> addresses;  // claimed; HOST:PORTs have TLS where `tls` has files
    TlsFiles tls;
    std::string tls_folder;            // where the files that are in force are kept
    bool require_certificate = false;  // nobody gets through the handshake without
    bool reflection = false;           // tells callers, without asking who they are, what there is
    bool local = false;                // one user's: no other account than root gets in
    Door::Limits connections;
    absl::Duration handshake_timeout = absl::Seconds(20);
    absl::Duration keepalive = absl::Minutes(1);  // silence before a sign of life is asked for
    absl::Duration connection_idle = absl::Minutes(10);  // without calls
    absl::Duration connection_age = absl::Hours(1);
    CallObserver* observer = nullptr;  // told of every call; outlives the server
    HealthFacts health;                // at first
  };
  // `services` outlive it. Callers get in from here on. InvalidArgument for files of TLS that are
  // of no use.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Start(
      Options options, const std::vector<grpc::Service*>& services);
  ~ApiServer();

  // As "host:port" or "unix:PATH", with the ports that were bound.
  std::vector<std::string> addresses() const;
  // What the health service says from now on.
  void SetHealth(const HealthFacts& facts);
  // Takes no more connections, and ends the calls that are not done within `grace`.
  void Shutdown(absl::Duration grace);

 private:
  explicit ApiServer(Options options)
      : options_(std::move(options)), door_(options_.connections, &IsOfWorker) {}
  absl::Status Build(const std::vector<grpc::Service*>& services);
  void AddListeners(const ListenAddress& address);

  Options options_;
  std::unique_ptr<TlsReloader> tls_;
  std::unique_ptr<AccountEntrances> entrances_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> ports_;  // of all HOST:PORTs
  std::unique_ptr<grpc::Server> server_;
  Door door_;
};

}  // namespace libreyolo::daemon
