#include "server/daemon/service/caller.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "server/daemon/service/call_watch.h"

namespace libreyolo::daemon {
namespace {

constexpr char kDefaultWorkspace[] = "default";
constexpr char kOwner[] = "owner";  // of a local daemon
constexpr char kBearer[] = "Bearer ";
constexpr size_t kMaxTokenBytes = 4096;

absl::Status NotKnown(absl::string_view why) {
  return MakeError(reason::kUnauthenticated, why,
                   {"--token-file FILE or LIBREYOLO_TOKEN_FILE names a file with your token",
                    "ask the server's admin for a token, or whether yours was taken back"});
}

absl::Status NotAdmitted(const Account& account, absl::string_view why) {
  return MakeError(reason::kUnauthenticated,
                   absl::StrCat("the account ",
                                account.name.empty() ? absl::StrCat("with uid ", account.uid)
                                                     : absl::StrCat("\"", account.name, "\""),
                                " is not let in: ", why),
                   {"ask the server's admin for a line with your account in the file of --tokens"},
                   {{"uid", absl::StrCat(account.uid)}});
}

// The bearer token of the call; empty: none. More than one is refused, lest it matter which.
absl::StatusOr<std::string> TokenOf(const grpc::CallbackServerContext& context) {
  const auto range = context.client_metadata().equal_range("authorization");
  if (range.first == range.second) return std::string();
  if (std::next(range.first) != range.second) return NotKnown("more than one token was sent");
  const absl::string_view value(range.first->second.data(), range.first->second.size());
  if (!absl::StartsWithIgnoreCase(value, kBearer) || value.size() > kMaxTokenBytes) {
    return NotKnown("the authorization that was sent is no bearer token");
  }
  return std::string(value.substr(sizeof kBearer - 1));
}

// The common name of the client's certificate, which the handshake has verified; empty: none.
std::string CommonNameOf(const grpc::CallbackServerContext& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr) return "";
  const std::vector<grpc::string_ref> names = auth->FindPropertyValues("x509_common_name");
  if (names.size() != 1) return "";
  const std::string name(names[0].data(), names[0].size());
  // Nobody may be issued the name of another kind of caller: the daemon's own user, an account.
  if (name == kDefaultWorkspace || name == "owner" || absl::StartsWith(name, "uid-")) return "";
  return name;
}

}  // namespace

absl::StatusOr<std::string> WorkspaceFor(const Caller& caller, const std::string& asked) {
  if (!caller.has_own_workspace) return asked;
  std::string workspace = asked.empty() ? caller.principal : asked;
  if (workspace != caller.principal && !caller.is_admin()) {
    return MakeError(reason::kPermissionDenied,
                     absl::StrCat("the workspace \"", workspace, "\" is not yours"),
                     {absl::StrCat("yours is \"", caller.principal, "\"")});
  }
  // One that has the default one's name is the default one.
  return workspace == kDefaultWorkspace ? std::string() : workspace;
}

absl::StatusOr<Caller> CallGate::IdentifyAccount(const Account& account) const {
  Caller caller;
  caller.peer = absl::StrCat("uid:", account.uid);
  const bool is_owner = account.uid == config_.accounts.owner || account.uid == 0;
  if (config_.local) {
    if (!is_owner) return NotAdmitted(account, "this daemon serves its own user alone");
    caller.principal = kOwner;
    caller.role = Role::kAdmin;
    caller.local_owner = true;
    return caller;
  }
  std::optional<User> user;
  if (config_.users != nullptr) user = config_.users->FindAccount(account.uid, account.name);
  if (!user.has_value() && is_owner) {
    caller.principal = kDefaultWorkspace;
    caller.role = Role::kAdmin;
    return caller;
  }
  if (!user.has_value()) {
    if (!config_.accounts.others.has_value()) {
      return NotAdmitted(account, "the server's file of users does not name it");
    }
    // A name that means something else here, or is none, is replaced by the number.
    const bool usable = IsPrincipalName(account.name) && account.name != kDefaultWorkspace &&
                        account.name != kOwner;
    user =
        User{usable ? account.name : absl::StrCat("uid-", account.uid), *config_.accounts.others};
    if (config_.users != nullptr && config_.users->Names(user->principal)) {
      return NotAdmitted(account, "the server's file of users names it, but not as an account");
    }
  }
  caller.has_own_workspace = true;
  caller.principal = user->principal;
  caller.role = user->role;
  return caller;
}

absl::StatusOr<Caller> CallGate::Identify(const grpc::CallbackServerContext& context) const {
  Caller caller;
  caller.peer = context.peer();
  const auto auth = context.auth_context();
  const std::optional<Account> account = auth == nullptr ? std::nullopt : AccountOf(*auth);
  const bool has_users = config_.users != nullptr || config_.certificates;
  LY_ASSIGN_OR_RETURN(const std::string token, has_users ? TokenOf(context) : std::string());
  // Who shows a token wants to be that one, also on a socket.
  if (account.has_value() && token.empty()) return IdentifyAccount(*account);
  if (config_.local) return NotKnown("a local daemon is reached by its socket alone");
  if (!has_users) {
    // Whoever reaches the loopback port is the one user.
    caller.principal = kDefaultWorkspace;
    caller.role = Role::kAdmin;
    return caller;
  }
  caller.has_own_workspace = true;
  if (!token.empty()) {
    const std::optional<User> user =
        config_.users == nullptr ? std::nullopt : config_.users->FindToken(token);
    if (!user.has_value()) return NotKnown("the server does not know this token");
    caller.principal = user->principal;
    caller.role = user->role;
    return caller;
  }
  const std::string name = config_.certificates ? CommonNameOf(context) : "";
  if (name.empty()) return NotKnown("the server wants to know who calls, and no token was sent");
  if (config_.users != nullptr) {
    const std::optional<User> user = config_.users->FindCertificate(name);
    if (!user.has_value()) return NotKnown("the server does not know this certificate's name");
    caller.principal = user->principal;
    caller.role = user->role;
    return caller;
  }
  if (!IsPrincipalName(name)) {
    return NotKnown("the certificate's common name is no principal: up to 64 of a-z 0-9 . _ -");
  }
  caller.principal = name;
  caller.role = Role::kSubmitter;
  return caller;
}

absl::StatusOr<Caller> CallGate::Admit(grpc::CallbackServerContext& context, const Access& access) {
  absl::StatusOr<Caller> caller = Identify(context);
  if (!caller.ok()) {
    LogRefusal(context, access, caller.status());
    return caller.status();
  }
  caller->request_id = RequestIdOf(context);
  // Clients compare it with their own, without a call of its own.
  context.AddInitialMetadata("x-libreyolo-build", config_.build_id);
  if (caller->role >= access.need) {
    const absl::Status taken = TakeSlot(*caller);
    if (taken.ok()) return caller;
    LogRefusal(context, access, taken);
    return taken;
  }
  const absl::Status status =
      MakeError(reason::kPermissionDenied,
                absl::StrCat("\"", caller->principal, "\" is a ", Name(caller->role),
                             " here, and this needs ", access.need == Role::kAdmin ? "an " : "a ",
                             Name(access.need)),
                {"ask the server's admin for that role"},
                {{"principal", caller->principal}, {"role", Name(caller->role)}});
  LogRefusal(context, access, status);
  return status;
}

absl::Status CallGate::TakeSlot(Caller& caller) const {
  if (config_.local) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(open_calls_->mu);
  int& count = open_calls_->of_principal[caller.principal];
  if (count >= config_.max_calls) {
    return MakeError(reason::kBusy,
                     absl::StrCat("\"", caller.principal, "\" has ", count,
                                  " calls under way, as many as one user may"),
                     {"wait until some of them end"});
  }
  ++count;
  caller.slot =
      std::shared_ptr<void>(nullptr, [calls = open_calls_, principal = caller.principal](void*) {
        const std::lock_guard<std::mutex> lock(calls->mu);
        const auto found = calls->of_principal.find(principal);
        if (--found->second == 0) calls->of_principal.erase(found);
      });
  return absl::OkStatus();
}

void CallGate::LogRefusal(const grpc::CallbackServerContext& context, const Access& access,
                          const absl::Status& status) {
  // Whoever knocks all day must not fill the disk.
  const int64_t now_s = MonotonicNs() / 1'000'000'000;
  if (last_refusal_s_.exchange(now_s) == now_s) {
    ++refusals_unlogged_;
    return;
  }
  LogWarning("access refused", {{"request", RequestIdOf(context)},
                                {"peer", context.peer()},
                                {"reason", GetErrorDetail(status).reason},
                                {"message", status.message()},
                                {"change", access.change == nullptr ? "" : access.change},
                                {"refused_before", refusals_unlogged_.exchange(0)}});
}

void CallGate::Audit(const Caller& caller, const Access& access, const absl::Status& result) {
  if (access.change == nullptr) return;
  LogInfo("audit", {{"change", access.change},
                    {"target", access.target},
                    {"principal", caller.principal},
                    {"role", Name(caller.role)},
                    {"peer", caller.peer},
                    {"result", result.ok() ? "OK" : GetErrorDetail(result).reason},
                    {"request", caller.request_id}});
}

}  // namespace libreyolo::daemon
