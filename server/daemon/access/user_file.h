// Who may use a served daemon and as what: the file behind --tokens.
//
//   # one line each: principal, role, and the SHA-256 of a token or the word "cert"
//   alice  submitter  9f86d081884c7d65...        a bearer token
//   ops    admin      cert                       a client certificate with the common name "ops"
//   carol  submitter  account                    the account "carol" of this host, by a unix socket
//   dave   viewer     uid:1004                   the account with that number, likewise
//
// The tokens themselves stand nowhere. Thread-safe.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo::daemon {

// Each may do what the ones before it may.
enum class Role { kViewer, kSubmitter, kAdmin };

const char* Name(Role role);  // "viewer"
std::optional<Role> ParseRole(absl::string_view name);

struct User {
  std::string principal;
  Role role = Role::kViewer;
};

// A principal's name is its workspace's too: up to 64 of a-z 0-9 . _ - without a dot in front.
bool IsPrincipalName(absl::string_view name);

class UserFile {
 public:
  // InvalidArgument names the line that is wrong, or why the file's owner or mode will not do: it
  // must be this user's or root's, writable by its owner only, and unreadable for others.
  static absl::StatusOr<std::unique_ptr<UserFile>> Open(const std::string& path);

  // Whose `token` is. The file is read again once it changed; one that is gone or wrong lets nobody
  // in until it is right, so that taking a line out always works. Takes the same time for every
  // token.
  std::optional<User> FindToken(absl::string_view token);
  // Who a verified certificate with this common name is.
  std::optional<User> FindCertificate(absl::string_view common_name);
  // Who an account of this host is. A line with its number goes before one with its name.
  std::optional<User> FindAccount(uid_t uid, absl::string_view name);
  // Whether the file says anything of that principal.
  bool Names(absl::string_view principal);

 private:
  struct Entry {
    User user;
    std::string token_sha256;  // empty: by what follows
    enum class Proof { kToken, kCertificate, kAccount, kUid } proof = Proof::kToken;
    uid_t uid = 0;
  };
  explicit UserFile(std::string path) : path_(std::move(path)) {}
  absl::Status Load(const struct stat& info);
  void ReloadIfChanged();
  static absl::StatusOr<std::vector<Entry>> Parse(absl::string_view text);

  const std::string path_;
  std::mutex mu_;
  struct stat seen_ {};
  std::vector<Entry> entries_;
};

}  // namespace libreyolo::daemon
