// The way to a server: which one, and a channel to it. Used from one thread.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/rpc/server_choice.h"
#include "client/rpc/ssh_tunnel.h"
#include "libreyolo/profile/v1/profiler.pb.h"

namespace libreyolo::client {

// Where RPCs go.
struct Server {
  std::shared_ptr<grpc::Channel> channel;
  bool local = false;                 // the user's own daemon for the current folder
  std::string address;                // as gRPC takes it: "unix:/run/...", "host:7430"
  std::string state_dir;              // local only: its log and state
  std::shared_ptr<SshTunnel> tunnel;  // ssh:// only
  ChannelSecurity security;           // what the channel was made with
};

inline constexpr int kDefaultPort = 7430;

// "host", "host:port", "[v6]:port", "unix:PATH" -> what gRPC takes; "ssh://..." stays.
// ARGUMENT_INVALID says what an address looks like.
absl::StatusOr<std::string> ParseAddress(absl::string_view text);

// Of a parsed address.
bool IsSocketAddress(absl::string_view address);    // a unix socket, or one behind ssh
bool IsLoopbackAddress(absl::string_view address);  // nothing of it is seen on a network

// A channel without what a short-lived client does not need (service config look-up, retries,
// proxies on loopback). Not for ssh://.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelSecurity& security = {});

// What `server` is: its capabilities, of a call that says who asks.
absl::StatusOr<profile::v1::Capabilities> AskCapabilities(const Server& server);

// `status`, which says that the server does not know what it was asked for, with the versions of
// both sides where they differ.
absl::Status NameBothVersions(const Server& server, const absl::Status& status);

// A local daemon of another build than this client's is replaced when it is idle. When it is busy:
enum class NeedDaemon {
  kAny,        // readers use it as long as its API fits
  kSameBuild,  // measuring is BUSY
};

// The server that `typed` and the environment choose (ChooseServer); the local daemon is started
// when it does not run.
//   SERVER_UNREACHABLE  the named server does not answer, or the local one could not be started
//                       (with its log's end)
//   BUSY                kSameBuild was asked for, and a local daemon of another build is at work
absl::StatusOr<Server> Connect(const ServerOptions& typed, NeedDaemon need);

}  // namespace libreyolo::client
