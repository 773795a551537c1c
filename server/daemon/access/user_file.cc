#include "server/daemon/access/user_file.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr char kCertificate[] = "cert";
constexpr char kAccount[] = "account";
constexpr char kUid[] = "uid:";

absl::Status CheckOwnerAndMode(const std::string& path, const struct stat& info) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("the file of tokens ", path, " ", why));
  };
  if (!S_ISREG(info.st_mode)) return refuse("is no plain file");
  if (info.st_uid != geteuid() && info.st_uid != 0) return refuse("belongs to another user");
  if ((info.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    return refuse("is open to others; chmod 600 makes it private");
  }
  return absl::OkStatus();
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mode == b.st_mode && a.st_uid == b.st_uid && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

}  // namespace

std::optional<Role> ParseRole(absl::string_view text) {
  for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kAdmin}) {
    if (text == Name(role)) return role;
  }
  return std::nullopt;
}

const char* Name(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kSubmitter:
      return "submitter";
    case Role::kAdmin:
      return "admin";
  }
  return "";
}

bool IsPrincipalName(absl::string_view name) {
  if (name.empty() || name.size() > 64 || name[0] == '.') return false;
  for (const char c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!plain) return false;
  }
  return true;
}

absl::StatusOr<std::vector<UserFile::Entry>> UserFile::Parse(absl::string_view text) {
  std::vector<Entry> entries;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, " ", why));
    };
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    if (words.size() != 3) {
      return refuse(
          "is not a principal, a role, and a token's SHA-256, \"cert\", \"account\" or \"uid:N\"");
    }
    if (!IsPrincipalName(words[0])) {
      return refuse("names a principal with other than up to 64 of a-z 0-9 . _ -");
    }
    const std::optional<Role> role = ParseRole(words[1]);
    if (!role.has_value()) return refuse("has no role of viewer, submitter or admin");
    Entry entry{{std::string(words[0]), *role}, ""};
    if (words[2] == kCertificate) {
      entry.proof = Entry::Proof::kCertificate;
    } else if (words[2] == kAccount) {
      entry.proof = Entry::Proof::kAccount;
    } else if (absl::StartsWith(words[2], kUid)) {
      entry.proof = Entry::Proof::kUid;
      if (!absl::SimpleAtoi(words[2].substr(sizeof kUid - 1), &entry.uid)) {
        return refuse("ends in uid: without a number");
      }
    } else {
      // Never quoted: it may be a token that somebody put there by mistake.
      if (!IsSha256Hex(words[2])) return refuse("ends in no SHA-256 of 64 lower-case hex digits");
      entry.token_sha256 = std::string(words[2]);
    }
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) return absl::InvalidArgumentError("nobody stands in it");
  return entries;
}

absl::Status UserFile::Load(const struct stat& info) {
  LY_RETURN_IF_ERROR(CheckOwnerAndMode(path_, info));
  LY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_, kMaxFileBytes));
  absl::StatusOr<std::vector<Entry>> entries = Parse(text);
  if (!entries.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file of tokens ", path_, ": ", entries.status().message()));
  }
  entries_ = *std::move(entries);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<UserFile>> UserFile::Open(const std::string& path) {
  std::unique_ptr<UserFile> file(new UserFile(path));
  if (stat(path.c_str(), &file->seen_) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file of tokens ", path, ": ", strerror(errno)));
  }
  LY_RETURN_IF_ERROR(file->Load(file->seen_));
  return file;
}

void UserFile::ReloadIfChanged() {
  struct stat now {};
  if (stat(path_.c_str(), &now) != 0) now = {};
  if (IsSame(now, seen_)) return;
  seen_ = now;
  entries_.clear();
  const absl::Status status = Load(now);
  if (status.ok()) {
    LogInfo("tokens read", {{"file", path_}, {"users", entries_.size()}});
  } else {
    LogError("nobody is let in: tokens not read", {{"error", status.message()}});
  }
}

std::optional<User> UserFile::FindToken(absl::string_view token) {
  const std::string digest = Sha256Hex(token);
  const std::lock_guard<std::mutex> lock(mu_);
  ReloadIfChanged();
  // All entries are looked at, each whole: the time says nothing about a near miss.
  std::optional<User> found;
  for (const Entry& entry : entries_) {
    const bool comparable = entry.token_sha256.size() == digest.size();
    if (comparable && CRYPTO_memcmp(entry.token_sha256.data(), digest.data(), digest.size()) == 0) {
      found = entry.user;
    }
  }
  return found;
}

std::optional<User> UserFile::FindCertificate(absl::string_view common_name) {
  const std::lock_guard<std::mutex> lock(mu_);
  ReloadIfChanged();
  for (const Entry& entry : entries_) {
    if (entry.proof == Entry::Proof::kCertificate && entry.user.principal == common_name)
      return entry.user;
  }
  return std::nullopt;
}

std::optional<User> UserFile::FindAccount(uid_t uid, absl::string_view name) {
  const std::lock_guard<std::mutex> lock(mu_);
  ReloadIfChanged();
  for (const Entry& entry : entries_) {
    if (entry.proof == Entry::Proof::kUid && entry.uid == uid) return entry.user;
  }
  for (const Entry& entry : entries_) {
    if (entry.proof == Entry::Proof::kAccount && entry.user.principal == name) return entry.user;
  }
  return std::nullopt;
}

bool UserFile::Names(absl::string_view principal) {
  const std::lock_guard<std::mutex> lock(mu_);
  ReloadIfChanged();
  for (const Entry& entry : entries_) {
    if (entry.user.principal == principal) return true;
  }
  return false;
}

}  // namespace libreyolo::daemon
