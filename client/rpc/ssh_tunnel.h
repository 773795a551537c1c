// A server behind ssh: each connection that gRPC makes runs `ssh HOST libreyolo dial-stdio`, which
// hands its standard input and output to the server's socket there. No port is open anywhere, and
// a connection that broke is made anew.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"

namespace libreyolo::client {

struct SshAddress {
  std::string destination;  // [user@]host
  std::string port;         // "" for ssh's own choice
  std::string socket;       // the server's socket there; "" for its usual place
};

// ssh://[user@]host[:port][/path/of/the.sock]. ARGUMENT_INVALID for anything that ssh or the shell
// there could take for something else.
absl::StatusOr<SshAddress> ParseSshAddress(absl::string_view text);

class SshTunnel {
 public:
  // Makes the near end in the user's private run-time folder. ssh is run once somebody connects.
  static absl::StatusOr<std::shared_ptr<SshTunnel>> Open(const SshAddress& address);
  ~SshTunnel();
  SshTunnel(const SshTunnel&) = delete;
  SshTunnel& operator=(const SshTunnel&) = delete;

  const std::string& socket_path() const { return socket_path_; }

 private:
  SshTunnel(const SshAddress& address, std::string socket_path, UniqueFd listener, UniqueFd stop);
  void Serve();
  void StartSsh(UniqueFd connection);

  std::vector<std::string> command_;
  const std::string socket_path_;
  const UniqueFd listener_;
  const UniqueFd stop_;
  std::thread thread_;
};

// Copies between standard input and output and the socket until one side ends; gives the exit code.
// `words` are what follows "dial-stdio": nothing, or the socket's path.
int DialStdio(const std::vector<std::string>& words);

}  // namespace libreyolo::client
