// Who calls, and what every handler of the API does first: see that the caller may, tell its own
// build, note the activity that keeps a local daemon from ending. Handlers cannot get round it:
// AnswerOn (unary.h) and the streams run their work only with a Caller, and only CallGate makes
// one. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/status_convert.h"
#include "server/daemon/access/accounts.h"
#include "server/daemon/access/user_file.h"

namespace libreyolo::daemon {

struct Caller {
  std::string principal;
  Role role = Role::kViewer;
  // Where it comes from, for the audit.
  std::string peer;
  // Of this call, as the log and the caller know it (call_watch.h).
  std::string request_id;
  // The user who owns a local daemon: may name files of this machine by path.
  bool local_owner = false;
  // One of several users, who has a workspace of the principal's name. Without: the one user of a
  // daemon that tells nobody apart.
  bool has_own_workspace = false;
  // One of the calls that the principal may have under way; given back with the last copy.
  std::shared_ptr<void> slot;
  // True once nobody waits for the answer any more; long work asks now and then. Empty: unknown.
  std::function<bool()> is_cancelled;

  bool is_admin() const { return role == Role::kAdmin; }
  bool MaySee(const std::string& owner) const { return is_admin() || owner == principal; }
  // The only principal whose jobs it sees; empty: all.
  std::string OnlyJobsOf() const { return is_admin() ? "" : principal; }
};

// What the accounts of this host are that come by a unix socket. The daemon's own and root are its
// admin.
struct AccountPolicy {
  uid_t owner = 0;
  // What an account is that the file of users does not name; nothing: it is not let in.
  std::optional<Role> others;
};

// The workspace that `caller` means by `asked` (empty: its own). PERMISSION_DENIED for another's.
absl::StatusOr<std::string> WorkspaceFor(const Caller& caller, const std::string& asked);

// What a method asks of its caller.
struct Access {
  Role need = Role::kViewer;
  // For methods that change something: how the audit calls it, and what is changed.
  const char* change = nullptr;
  std::string target = "";
};

// Calls under way and the time of the last one.
class Activity {
 public:
  void Begin() { ++open_; }
  void End() {
    last_ns_ = MonotonicNs();
    --open_;
  }
  int open() const { return open_; }
  absl::Duration IdleFor() const {
    return open_ > 0 ? absl::ZeroDuration() : absl::Nanoseconds(MonotonicNs() - last_ns_);
  }

 private:
  std::atomic<int> open_{0};
  std::atomic<int64_t> last_ns_{MonotonicNs()};
};

// Marks one call for its lifetime.
class ActiveCall {
 public:
  explicit ActiveCall(Activity& activity) : activity_(activity) { activity_.Begin(); }
  ~ActiveCall() { activity_.End(); }
  ActiveCall(const ActiveCall&) = delete;
  ActiveCall& operator=(const ActiveCall&) = delete;

 private:
  Activity& activity_;
};

// What the services share. Outlives them.
class CallGate {
 public:
  struct Config {
    bool local = false;
    std::string build_id;
    UserFile* users = nullptr;  // null: no file of users
    bool certificates = false;  // clients may show a certificate
    AccountPolicy accounts;     // who comes by a unix socket
    int max_calls = 100;        // of one principal at once
    absl::Duration stall_timeout = absl::Minutes(1);
  };
  explicit CallGate(Config config) : config_(std::move(config)) {}

  // UNAUTHENTICATED when it is not known who calls, PERMISSION_DENIED when that one's role does not
  // reach, BUSY when it has too many calls under way; all are logged.
  absl::StatusOr<Caller> Admit(grpc::CallbackServerContext& context, const Access& access);
  // One line in the log for a change that was made or refused.
  static void Audit(const Caller& caller, const Access& access, const absl::Status& result);
  Activity& activity() { return activity_; }
  // How long the other end of a stream may do nothing when it is its turn.
  absl::Duration stall_timeout() const { return config_.stall_timeout; }

 private:
  struct OpenCalls {
    std::mutex mu;
    std::map<std::string, int> of_principal;
  };
  absl::Status TakeSlot(Caller& caller) const;
  absl::StatusOr<Caller> Identify(const grpc::CallbackServerContext& context) const;
  absl::StatusOr<Caller> IdentifyAccount(const Account& account) const;
  void LogRefusal(const grpc::CallbackServerContext& context, const Access& access,
                  const absl::Status& status);

  const Config config_;
  const std::shared_ptr<OpenCalls> open_calls_ = std::make_shared<OpenCalls>();
  Activity activity_;
  std::atomic<int64_t> last_refusal_s_{-1};
  std::atomic<int64_t> refusals_unlogged_{0};
};

}  // namespace libreyolo::daemon
