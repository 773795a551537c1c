// Which server a command is for and how to be let in: flags, then the environment, then the
// current context, then the local daemon. Reads files; one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo::client {

// As typed, or as a context keeps it; "" is not given.
struct ServerOptions {
  std::string server;      // an address
  std::string ca;          // PEM file of who signs the server's certificate; else the system's
  std::string token_file;  // holds the bearer token
  std::string cert;        // PEM file of the client's certificate
  std::string key;         // and its private key
};

// What a channel is secured with; file contents.
struct ChannelSecurity {
  bool tls = false;
  std::string ca_pem;
  std::string cert_pem;
  std::string key_pem;
  std::string token;  // sent with every call; "" for none
};

struct ServerChoice {
  std::string address;  // as gRPC takes it, or "ssh://..."; empty: the local daemon
  ChannelSecurity security;
};

// `typed` are flags; LIBREYOLO_SERVER, LIBREYOLO_CA, LIBREYOLO_TOKEN_FILE, LIBREYOLO_TOKEN,
// LIBREYOLO_CERT and LIBREYOLO_KEY stand in for those that were not typed. A context's credentials
// go to the context's server only. TLS is used for every TCP address off loopback, and on loopback
// when an authority or a certificate is given.
//   ARGUMENT_INVALID   an address, a file or a token that is of no use
absl::StatusOr<ServerChoice> ChooseServer(const ServerOptions& typed);

// Where a user's settings are: $XDG_CONFIG_HOME/libreyolo, by default ~/.config/libreyolo.
// ARGUMENT_INVALID when neither is set.
absl::StatusOr<std::string> ConfigFolder();

// Named servers, in $XDG_CONFIG_HOME/libreyolo/contexts.json (mode 600).
struct Contexts {
  struct Named {
    std::string name;
    ServerOptions options;
  };
  std::string current;  // a name; empty: the local daemon
  std::vector<Named> all;

  const Named* Find(absl::string_view name) const;
};

// The word for no context at all.
inline constexpr char kLocalContext[] = "local";

// No file gives no contexts. ARGUMENT_INVALID for one that cannot be read.
absl::StatusOr<Contexts> LoadContexts();
absl::Status SaveContexts(const Contexts& contexts);

}  // namespace libreyolo::client
