#include "server/daemon/store/result_files.h"

#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "common/json/json_value.h"
#include "server/daemon/store/commit_plan.h"

namespace libreyolo::daemon {
namespace {

constexpr int64_t kMaxProfileBytes = int64_t{64} << 20;
constexpr size_t kMaxJobIdLength = 128;

std::string ProfileFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) ? path + "/profile.json" : path;
}

// A profile is anybody's file: what it calls its job becomes a folder's name only if it is a plain
// one.
bool IsPlainName(const std::string& text) {
  if (text.empty() || text.size() > kMaxJobIdLength || text[0] == '.') return false;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) return false;
  }
  return true;
}

}  // namespace

bool Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    names.push_back(entry.path().filename());
  return names;
}

std::string JobOf(const std::string& path) {
  const auto text = ReadFile(ProfileFile(path), kMaxProfileBytes);
  if (!text.ok()) return {};
  const auto json = ParseJson(*text);
  if (!json.ok()) return {};
  const JsonValue* job = json->Find(kJobKey);
  return job != nullptr && job->is_string() && IsPlainName(job->string_value())
             ? job->string_value()
             : std::string();
}

std::string NameByTime(const std::string& path) {
  struct stat info;
  if (stat(ProfileFile(path).c_str(), &info) != 0 && lstat(path.c_str(), &info) != 0)
    return "unknown";
  return absl::FormatTime("%Y%m%dT%H%M%SZ", absl::FromTimeT(info.st_mtime), absl::UTCTimeZone());
}

bool IsTrialName(const std::string& name, const std::string& base) {
  const std::string prefix = absl::StrCat(base, "_");
  if (!absl::StartsWith(name, prefix) || name.size() == prefix.size()) return false;
  const std::string number = name.substr(prefix.size());
  if (number.size() > 9 || (number.size() > 1 && number[0] == '0')) return false;
  return number.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace libreyolo::daemon
