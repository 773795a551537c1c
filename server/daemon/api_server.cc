#include "server/daemon/api_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

constexpr int kMaxMessageBytes = 1 << 20;
constexpr int kMaxHeaderBytes = 16 << 10;
constexpr int kMaxStreamsPerConnection = 128;
constexpr int kAccounts = 128;
constexpr int kLocalAccounts = 2;  // the user and root

constexpr absl::Duration kSignOfLife = absl::Seconds(20);

// gRPC takes milliseconds as an int.
int ToMs(absl::Duration duration) {
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1, INT_MAX));
}

// A peer that says nothing for long is gone, and one that never says what it wants must go.
void SetDeadlines(const ApiServer::Options& options, grpc::ServerBuilder& builder) {
  // TLS and the first frames of HTTP/2.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, ToMs(options.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ToMs(options.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             ToMs(std::min(options.keepalive, kSignOfLife)));
  // Clients ask too, whether it is still there while they wait for a job.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             ToMs(absl::Seconds(10)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, ToMs(options.connection_idle));
  if (options.local) return;
  // What hangs in a call that was begun and never sent holds its place no longer than this. Who
  // watches a job attaches again; transfers go on where they were.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, ToMs(options.connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             ToMs(options.connection_age / 4));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Start(
    Options options, const std::vector<grpc::Service*>& services) {
  std::unique_ptr<ApiServer> server(new ApiServer(std::move(options)));
  LY_RETURN_IF_ERROR(server->Build(services));
  for (const ListenAddress& address : server->options_.addresses) {
    LY_RETURN_IF_ERROR(address.Open());
    server->AddListeners(address);
  }
  server->door_.Start();
  return server;
}

ApiServer::~ApiServer() { door_.Stop(); }

absl::Status ApiServer::Build(const std::vector<grpc::Service*>& services) {
  bool has_sockets = false;
  bool has_ports = false;
  for (const ListenAddress& address : options_.addresses) {
    (address.is_socket ? has_sockets : has_ports) = true;
  }
  grpc::EnableDefaultHealthCheckService(true);
  if (options_.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxHeaderBytes);
  // No call of ours is compressed, and a small one could grow large before its size is looked at.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  SetDeadlines(options_, builder);
  if (has_sockets) {
    entrances_ =
        std::make_unique<AccountEntrances>(builder, options_.local ? kLocalAccounts : kAccounts);
  }
  if (has_ports) {
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!options_.tls.certificate.empty()) {
      LY_ASSIGN_OR_RETURN(tls_, TlsReloader::Start(options_.tls, options_.tls_folder));
      credentials = tls_->MakeCredentials(options_.require_certificate);
    }
    ports_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  }
  if (options_.observer != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> watches;
    // One who owns the daemon needs nobody to name a call to.
    watches.push_back(MakeCallWatch(*options_.observer, /*name_in_errors=*/!options_.local));
    builder.experimental().SetInterceptorCreators(std::move(watches));
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC does not start");
  SetHealth(options_.health);
  return absl::OkStatus();
}

void ApiServer::AddListeners(const ListenAddress& address) {
  for (const UniqueFd& socket : address.sockets) {
    door_.AddListener(
        socket.get(), [this, is_socket = address.is_socket](const Peer& peer, UniqueFd fd) {
          if (is_socket) {
            if (entrances_->Take(peer.uid, std::move(fd))) return true;
            LogWarning("connection refused: too many accounts", {{"peer", peer.address}});
            return false;
          }
          grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
          parameters.fd = fd.Release();
          ports_->HandleNewConnection(&parameters);
          return true;
        });
  }
}

std::vector<std::string> ApiServer::addresses() const {
  std::vector<std::string> names;
  for (const ListenAddress& address : options_.addresses) names.push_back(address.name);
  return names;
}

void ApiServer::SetHealth(const HealthFacts& facts) {
  for (const auto& [service, serving] : ServingOf(facts))
    server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

void ApiServer::Shutdown(absl::Duration grace) {
  door_.Stop();
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(grace));
}

}  // namespace libreyolo::daemon
