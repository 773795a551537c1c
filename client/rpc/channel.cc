#include "client/rpc/channel.h"

#include <arpa/inet.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/rpc/local_daemon.h"
#include "client/rpc/reach.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr size_t kMaxSocketPath = 107;
constexpr int kMaxMessageBytes = 4 << 20;
constexpr char kApiVersion[] = "v1";
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);
constexpr absl::Duration kSshTimeout = absl::Seconds(60);
constexpr absl::Duration kAskTimeout = absl::Seconds(10);
// An idle daemon ends at once; one that drains may have a job's processes to end.
constexpr int kReplaceTimeoutS = 30;

absl::Status BadAddress(absl::string_view text, absl::string_view why) {
  return MakeError(
      reason::kArgumentInvalid,
      absl::StrCat("the server address \"", absl::CHexEscape(text), "\" ", why),
      {"an address looks like HOST, HOST:PORT, [IPV6]:PORT, unix:PATH or ssh://[USER@]HOST",
       absl::StrCat("the port is ", kDefaultPort, " when none is given")});
}

absl::StatusOr<std::string> ParseSocketAddress(absl::string_view text, absl::string_view path) {
  if (absl::StartsWith(path, "///")) path.remove_prefix(2);  // the URI form
  if (path.empty()) return BadAddress(text, "names no socket");
  if (path.size() > kMaxSocketPath) {
    return BadAddress(text, absl::StrCat("has a socket path of ", path.size(), " bytes; ",
                                         kMaxSocketPath, " are possible"));
  }
  return absl::StrCat("unix:", path);
}

constexpr char kSsh[] = "ssh://";

bool IsSocket(absl::string_view address) { return absl::StartsWith(address, "unix:"); }

// Adds the bearer token to every call. Call credentials would do so on TLS channels only, and a
// server on loopback may ask for tokens too.
class TokenInterceptor : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(const std::string& token) : token_(token) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", "Bearer " + token_);
    }
    methods->Proceed();
  }

 private:
  const std::string token_;
};

class TokenInterceptorFactory : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(std::string token) : token_(std::move(token)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new TokenInterceptor(token_);
  }

 private:
  const std::string token_;
};

std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const ChannelSecurity& security) {
  if (!security.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = security.ca_pem;
  options.pem_cert_chain = security.cert_pem;
  options.pem_private_key = security.key_pem;
  return grpc::SslCredentials(options);
}

absl::StatusOr<v1::Capabilities> Ask(const std::shared_ptr<grpc::Channel>& channel,
                                     absl::Duration timeout) {
  const auto stub = v1::ServerService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  v1::GetCapabilitiesRequest request;
  request.set_client_version(Version());
  request.set_client_build_id(BuildId());
  v1::Capabilities about;
  LY_RETURN_IF_ERROR(rpc::FromGrpcStatus(stub->GetCapabilities(&context, request, &about)));
  return about;
}

absl::Status NotReachable(const std::string& address, absl::string_view why) {
  return MakeError(
      reason::kServerUnreachable, absl::StrCat("the server ", address, " does not answer: ", why),
      {"start libreyolod there, or correct the address in --server or LIBREYOLO_SERVER",
       "leave both out to use the local daemon of the current folder"},
      {{"server", address}});
}

// gRPC's word for what went wrong is the last resort: it begins with what it tried, not with why.
absl::Status WhyNot(const Server& server, absl::string_view otherwise) {
  if (server.tunnel != nullptr) return NotReachable(server.address, otherwise);
  const absl::Status found = ProbeServer(server.address, server.security).status();
  return found.ok() ? NotReachable(server.address, otherwise) : found;
}

// Whether anybody is there, without a call: WaitForConnected() would go on trying a port that
// refuses.
absl::Status CheckReachable(const Server& server) {
  if (IsSocket(server.address)) {
    if (IsListening(server.address.substr(5))) return absl::OkStatus();
    return NotReachable(server.address, "nobody listens on the socket");
  }
  // Over ssh a password may have to be typed first.
  const absl::Duration timeout = server.tunnel != nullptr ? kSshTimeout : kConnectTimeout;
  const auto deadline = absl::ToChronoTime(absl::Now() + timeout);
  grpc_connectivity_state state = server.channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    if (!server.channel->WaitForStateChange(state, deadline)) {
      return WhyNot(server, absl::StrCat("no connection within ", absl::FormatDuration(timeout)));
    }
    state = server.channel->GetState(/*try_to_connect=*/true);
  }
  if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
  // A call says what the state does not: why.
  const absl::Status why = Ask(server.channel, absl::Seconds(1)).status();
  return why.ok() ? absl::OkStatus() : WhyNot(server, why.message());
}

absl::StatusOr<Server> ConnectToNamed(const ServerChoice& choice) {
  Server server;
  server.address = choice.address;
  server.security = choice.security;
  if (absl::StartsWith(choice.address, kSsh)) {
    LY_ASSIGN_OR_RETURN(const SshAddress address, ParseSshAddress(choice.address));
    LY_ASSIGN_OR_RETURN(server.tunnel, SshTunnel::Open(address));
    server.channel = MakeChannel("unix:" + server.tunnel->socket_path(), choice.security);
  } else {
    server.channel = MakeChannel(server.address, choice.security);
  }
  LY_RETURN_IF_ERROR(CheckReachable(server));
  return server;
}

absl::Status CheckApi(const v1::Capabilities& about) {
  if (about.api_version() == kApiVersion) return absl::OkStatus();
  return MakeError(reason::kServerUnreachable,
                   absl::StrCat("the local daemon (build ", about.build_id(), ") speaks API ",
                                about.api_version(), ", this client (build ", BuildId(),
                                ") speaks ", kApiVersion),
                   {"install the client and libreyolod of one build"});
}

// Sees to it that the daemon which runs at `place` is the one that would be started now, or for a
// reader one that it can use.
absl::Status EnsureSameBuild(const LocalDaemonPlace& place, NeedDaemon need, Server& server) {
  absl::StatusOr<v1::Capabilities> about = Ask(server.channel, kAskTimeout);
  if (HasReason(about.status(), reason::kServerUnreachable) && !IsListening(place.socket_path)) {
    // It ended of itself between the look at its socket and the question.
    return StartLocalDaemon(place);
  }
  LY_RETURN_IF_ERROR(about.status());
  if (about->build_id() == BuildId() && !about->draining()) return CheckApi(*about);
  if (about->active_jobs() > 0 && need == NeedDaemon::kAny) return CheckApi(*about);
  if (about->active_jobs() > 0 && !about->draining()) {
    return MakeError(reason::kBusy,
                     absl::StrCat("the local daemon is of another build (", about->build_id(),
                                  ", this client ", BuildId(), ") and has ", about->active_jobs(),
                                  about->active_jobs() == 1 ? " job" : " jobs", " to finish"),
                     {"wait until libreyolo jobs list --active shows none",
                      "libreyolo daemon restart --force ends them", "readers work meanwhile"},
                     {{"daemon_build", about->build_id()}, {"client_build", BuildId()}});
  }
  LY_RETURN_IF_ERROR(StopLocalDaemon(place, about->pid(), kReplaceTimeoutS));
  LY_RETURN_IF_ERROR(StartLocalDaemon(place));
  // The old one's connection is of no use. What is installed now may still be another build than
  // this client; it serves as long as the API fits, since daemon and worker agree among themselves.
  server.channel = MakeChannel(server.address);
  LY_ASSIGN_OR_RETURN(const v1::Capabilities started, Ask(server.channel, kAskTimeout));
  return CheckApi(started);
}

absl::StatusOr<Server> ConnectToLocal(NeedDaemon need) {
  LY_ASSIGN_OR_RETURN(const LocalDaemonPlace place, FindLocalDaemonPlace());
  Server server;
  server.local = true;
  server.address = "unix:" + place.socket_path;
  server.state_dir = place.state_dir;
  server.channel = MakeChannel(server.address);
  // One that is just started is of the installed build; asking it would only cost a call.
  if (!IsListening(place.socket_path)) {
    LY_RETURN_IF_ERROR(StartLocalDaemon(place));
    return server;
  }
  // A reader's time is mostly calls, so it looks at what the daemon wrote down first.
  if (need == NeedDaemon::kSameBuild || BuildOfLocalDaemon(place) != BuildId()) {
    LY_RETURN_IF_ERROR(EnsureSameBuild(place, need, server));
  }
  return server;
}

}  // namespace

bool IsSocketAddress(absl::string_view address) {
  return IsSocket(address) || absl::StartsWith(address, kSsh);
}

bool IsLoopbackAddress(absl::string_view address) {
  if (IsSocketAddress(address)) return true;
  if (absl::StartsWith(address, "localhost:") || absl::StartsWith(address, "[::1]:")) return true;
  // The numbers only: "127.example.org" is somebody's machine.
  in_addr ip;
  const std::string host(address.substr(0, address.rfind(':')));
  return inet_pton(AF_INET, host.c_str(), &ip) == 1 && (ntohl(ip.s_addr) >> 24) == 127;
}

absl::StatusOr<std::string> ParseAddress(absl::string_view text) {
  for (char c : text) {
    if (absl::ascii_isspace(c) || absl::ascii_iscntrl(c)) {
      return BadAddress(text, "holds white space");
    }
  }
  if (absl::StartsWith(text, kSsh)) {
    LY_RETURN_IF_ERROR(ParseSshAddress(text).status());
    return std::string(text);
  }
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) return ParseSocketAddress(text, rest);
  absl::string_view host = rest;
  absl::string_view port;
  bool has_port = false;
  if (absl::StartsWith(rest, "[")) {
    const size_t end = rest.find(']');
    if (end == absl::string_view::npos) return BadAddress(text, "lacks the closing ]");
    host = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    has_port = absl::ConsumePrefix(&rest, ":");
    if (!has_port && !rest.empty()) return BadAddress(text, "goes on after the ]");
    port = rest;
    if (host.size() == 2) return BadAddress(text, "names no host");
  } else if (const size_t colon = rest.find(':'); colon != absl::string_view::npos) {
    host = rest.substr(0, colon);
    port = rest.substr(colon + 1);
    has_port = true;
    if (absl::StartsWith(port, "//")) return BadAddress(text, "is a URL");
    if (absl::StrContains(port, ':')) return BadAddress(text, "needs [ ] around an IPv6 address");
  }
  if (host.empty()) return BadAddress(text, "names no host");
  if (host.find_first_of("/,@?#%") != absl::string_view::npos) {
    return BadAddress(text, "is no host name");
  }
  int number = kDefaultPort;
  if (has_port && (!absl::SimpleAtoi(port, &number) || number < 1 || number > 65535)) {
    return BadAddress(text, absl::StrCat("has the port \"", port, "\"; ports are 1 to 65535"));
  }
  return absl::StrCat(host, ":", number);
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A service config would be asked of the DNS as TXT records.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  // Else a channel made after a restart would inherit the pause of the one before.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The callers pause between their own attempts (FollowJob, downloads); gRPC's pauses must stay
  // below theirs.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  if (IsLoopbackAddress(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // With its scheme a host name is never taken for one, as "unix:7430" or "ipv4:7430" would be.
  const std::string target = IsSocket(address) ? address : absl::StrCat("dns:///", address);
  const std::shared_ptr<grpc::ChannelCredentials> credentials = MakeCredentials(security);
  if (security.token.empty()) return grpc::CreateCustomChannel(target, credentials, arguments);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<TokenInterceptorFactory>(security.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, arguments,
                                                                 std::move(factories));
}

absl::StatusOr<v1::Capabilities> AskCapabilities(const Server& server) {
  return Ask(server.channel, kAskTimeout);
}

absl::Status NameBothVersions(const Server& server, const absl::Status& status) {
  const absl::StatusOr<v1::Capabilities> about = AskCapabilities(server);
  if (!about.ok() || about->build_id() == BuildId()) return status;
  return MakeError(
      reason::kUnimplemented,
      absl::StrCat("the server (version ", about->version(), ", build ", about->build_id(),
                   ", API ", about->api_version(), ") does not know what this client (version ",
                   Version(), ", build ", BuildId(), ", API ", kApiVersion,
                   ") asks of it: ", status.message()),
      {"install the newer version on the other side too",
       "libreyolo --version shows both versions"},
      {{"server_version", about->version()},
       {"server_build", about->build_id()},
       {"client_version", Version()},
       {"client_build", BuildId()}});
}

absl::StatusOr<Server> Connect(const ServerOptions& typed, NeedDaemon need) {
  LY_ASSIGN_OR_RETURN(const ServerChoice choice, ChooseServer(typed));
  return choice.address.empty() ? ConnectToLocal(need) : ConnectToNamed(choice);
}

}  // namespace libreyolo::client
