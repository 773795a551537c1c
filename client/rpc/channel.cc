#include "client/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/rpc/local_daemon.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr int kConnectTimeoutS = 5;
constexpr int kStopTimeoutS = 10;
constexpr int kMaxMessageBytes = 4 << 20;

absl::Status BadAddress(absl::string_view text) {
  return MakeError(
      reason::kArgumentInvalid, absl::StrCat("\"", std::string(text), "\" is no server address"),
      {"addresses look like gpu-box, gpu-box:7430, [::1]:7430 or unix:/path/to/socket"});
}

absl::StatusOr<Server> ConnectNamed(const std::string& text) {
  Server server;
  LY_ASSIGN_OR_RETURN(server.address, ParseAddress(text));
  server.channel = MakeChannel(server.address);
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(kConnectTimeoutS);
  if (server.channel->WaitForConnected(deadline)) return server;
  return MakeError(reason::kServerUnreachable, absl::StrCat("no libreyolod answers at ", text),
                   {"is libreyolod running there, and is the address right?",
                    "without --server and LIBREYOLO_SERVER a local one is started"},
                   {{"address", text}});
}

Server AtPlace(const LocalDaemonPlace& place) {
  Server server;
  server.local = true;
  server.address = absl::StrCat("unix:", place.socket_path);
  server.state_dir = place.state_dir;
  server.channel = MakeChannel(server.address);
  return server;
}

absl::StatusOr<v1::Capabilities> AskCapabilities(const Server& server) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(kConnectTimeoutS));
  v1::Capabilities capabilities;
  const grpc::Status status =
      v1::ServerService::NewStub(server.channel)->GetCapabilities(&context, {}, &capabilities);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return capabilities;
}

}  // namespace

absl::StatusOr<std::string> ParseAddress(absl::string_view text) {
  if (absl::StartsWith(text, "unix:")) {
    if (text.size() == 5) return BadAddress(text);
    return std::string(text);
  }
  absl::string_view host = text;
  absl::string_view port;
  if (absl::StartsWith(text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return BadAddress(text);
    host = text.substr(0, end + 1);
    port = text.substr(end + 1);
    if (!port.empty() && !absl::ConsumePrefix(&port, ":")) return BadAddress(text);
  } else if (const size_t colon = text.find(':'); colon != absl::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return BadAddress(text);
  }
  int number = kDefaultPort;
  if (!port.empty() && (!absl::SimpleAtoi(port, &number) || number < 1 || number > 65535))
    return BadAddress(text);
  if (host.empty() || host.find_first_of(" /\t") != absl::string_view::npos)
    return BadAddress(text);
  return absl::StrCat(host, ":", number);
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::StatusOr<Server> Connect(const std::string& flag, NeedDaemon need) {
  const char* environment = std::getenv("LIBREYOLO_SERVER");
  if (!flag.empty()) return ConnectNamed(flag);
  if (environment != nullptr && *environment != '\0') return ConnectNamed(environment);
  LY_ASSIGN_OR_RETURN(const LocalDaemonPlace place, FindLocalDaemonPlace());
  if (!IsListening(place.socket_path)) LY_RETURN_IF_ERROR(StartLocalDaemon(place));
  Server server = AtPlace(place);
  if (need == NeedDaemon::kAny) return server;
  LY_ASSIGN_OR_RETURN(const v1::Capabilities running, AskCapabilities(server));
  if (running.build_id() == BuildId() && !running.draining()) return server;
  if (running.active_jobs() > 0) {
    return MakeError(reason::kBusy,
                     absl::StrCat("the local libreyolod is of another build (", running.build_id(),
                                  ", this client is ", BuildId(), ") and still has ",
                                  running.active_jobs(), " jobs"),
                     {"wait until they end (libreyolo jobs list), then try again",
                      "libreyolo daemon restart ends them"});
  }
  LY_RETURN_IF_ERROR(StopLocalDaemon(place, running.pid(), kStopTimeoutS));
  LY_RETURN_IF_ERROR(StartLocalDaemon(place));
  return AtPlace(place);
}

}  // namespace libreyolo::client
