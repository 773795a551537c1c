// Accounts of this host, told by the unix socket that they come through. gRPC of this version tells
// a handler nothing about the other end of such a connection. So every account that comes gets a
// way into gRPC of its own, and that way says in the call's auth context whose it is.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

struct Account {
  uid_t uid = 0;
  std::string name;  // empty: the host has none for it
};

// The account that a call comes from; nothing for other connections.
std::optional<Account> AccountOf(const grpc::AuthContext& context);

// gRPC has to know all ways in before it starts, so the number of different accounts is limited.
class AccountEntrances {
 public:
  AccountEntrances(grpc::ServerBuilder& builder, int count);
  ~AccountEntrances();
  // Hands a connection of `uid` to gRPC. False when the entrances are used up by others. One
  // thread.
  bool Take(uid_t uid, UniqueFd connection);

 private:
  struct Entrance;
  std::vector<std::unique_ptr<Entrance>> entrances_;
  std::map<uid_t, Entrance*> taken_;
};

}  // namespace libreyolo::daemon
