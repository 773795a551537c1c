// The way to a server: which one, and a channel to it. Used from one thread.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo::client {

// Where RPCs go.
struct Server {
  std::shared_ptr<grpc::Channel> channel;
  bool local = false;     // the user's own daemon for the current folder
  std::string address;    // as gRPC takes it: "unix:/run/...", "host:7430"
  std::string state_dir;  // local only: its log and state
};

inline constexpr int kDefaultPort = 7430;

// "host", "host:port", "[v6]:port", "unix:PATH" -> what gRPC takes. ARGUMENT_INVALID says what an
// address looks like.
absl::StatusOr<std::string> ParseAddress(absl::string_view text);

// A channel without what a short-lived client does not need (service config look-up, retries,
// proxies on loopback).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

// A local daemon of another build than this client's is replaced when it is idle. When it is busy:
enum class NeedDaemon {
  kAny,        // readers use it as long as its API fits
  kSameBuild,  // measuring is BUSY
};

// `flag` is --server's value or empty; then LIBREYOLO_SERVER; then the local daemon, started when
// it does not run.
//   SERVER_UNREACHABLE  the named server does not answer, or the local one could not be started
//                       (with its log's end)
//   BUSY                kSameBuild was asked for, and a local daemon of another build is at work
absl::StatusOr<Server> Connect(const std::string& flag, NeedDaemon need);

}  // namespace libreyolo::client
