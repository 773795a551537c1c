#include "server/daemon/store/profile_listing.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "server/daemon/store/commit_plan.h"
#include "server/daemon/store/result_files.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;
namespace v1 = ::libreyolo::profile::v1;

constexpr int64_t kMaxProfileBytes = int64_t{64} << 20;
// A message names at most so many; a foreign file may claim any number.
constexpr int64_t kMaxTrials = 1000;

std::string TextOf(const JsonValue& json, const char* key) {
  const JsonValue* value = json.Find(key);
  return value != nullptr && value->is_string() ? value->string_value() : std::string();
}

void SetTime(const struct stat& status, v1::ProfileInfo& info) {
  info.mutable_time()->set_seconds(status.st_mtim.tv_sec);
  info.mutable_time()->set_nanos(static_cast<int32_t>(status.st_mtim.tv_nsec));
}

void SetFiles(const fs::path& path, v1::ProfileInfo& info) {
  std::error_code error;
  std::vector<fs::path> files = {path};
  if (path.filename() == "profile.json") {
    for (const auto& entry : fs::directory_iterator(path.parent_path(), error)) {
      if (entry.is_regular_file(error) && entry.path() != path) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  int64_t total = 0;
  info.clear_files();
  for (const fs::path& file : files) {
    struct stat status;
    if (stat(file.c_str(), &status) != 0) continue;  // gone meanwhile
    v1::ProfileFile& out = *info.add_files();
    out.set_name(file.filename());
    out.set_size_bytes(status.st_size);
    total += status.st_size;
  }
  info.set_size_bytes(total);
}

bool IsRepeatFile(const std::string& name) {
  return name == "infer_repeat.json" || name == "profile_repeat.json";
}

// What was known of each path, for reuse.
using Known = std::map<std::string, const v1::ProfileInfo*>;

absl::StatusOr<v1::ProfileInfo> DescribeUnlessKnown(const std::string& absolute,
                                                    const std::string& shown, const Known& known) {
  const auto found = known.find(shown);
  struct stat status;
  if (found == known.end() || stat(absolute.c_str(), &status) != 0 ||
      found->second->time().seconds() != status.st_mtim.tv_sec ||
      found->second->time().nanos() != status.st_mtim.tv_nsec) {
    return DescribeProfile(absolute, shown);
  }
  v1::ProfileInfo info = *found->second;
  SetFiles(absolute, info);
  return info;
}

void ScanFolder(const std::string& folder, const std::string& shown, bool replaced,
                const Known& known, std::vector<v1::ProfileInfo>& out) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!IsEntry(name)) continue;
    const std::string file = ProfilePathOf(name);
    auto info =
        DescribeUnlessKnown(absl::StrCat(folder, "/", file), absl::StrCat(shown, "/", file), known);
    if (!info.ok()) continue;  // somebody else's file under a name of ours
    info->set_replaced(replaced);
    out.push_back(*std::move(info));
  }
}

}  // namespace

absl::StatusOr<v1::ProfileInfo> DescribeProfile(const std::string& absolute,
                                                const std::string& shown) {
  struct stat status;
  if (stat(absolute.c_str(), &status) != 0) return ErrnoStatus(errno, "open", shown);
  LY_ASSIGN_OR_RETURN(const std::string text, ReadFile(absolute, kMaxProfileBytes));
  LY_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(text));
  if (!json.is_object()) return absl::InvalidArgumentError("not a profile");
  v1::ProfileInfo info;
  info.set_path(shown);
  info.set_job(TextOf(json, kJobKey));
  info.set_mode(TextOf(json, "mode").empty() ? "train" : TextOf(json, "mode"));
  info.set_model(TextOf(json, "model"));
  info.set_bound(TextOf(json, "bound"));
  if (const JsonValue* config = json.Find("config")) info.set_device(TextOf(*config, "device"));
  info.set_validity(TextOf(json, "validity"));
  for (const auto& [key, set] : {std::pair<const char*, void (v1::ProfileInfo::*)(double)>{
                                     "img_per_s", &v1::ProfileInfo::set_img_per_s},
                                 {"step_ms", &v1::ProfileInfo::set_step_ms}}) {
    const JsonValue* value = json.Find(key);
    if (value != nullptr && value->is_number()) (info.*set)(value->number());
  }
  SetTime(status, info);
  SetFiles(absolute, info);
  return info;
}

void DescribeTrials(const std::string& absolute, v1::ProfileInfo& info) {
  const fs::path path(absolute);
  if (!IsRepeatFile(path.filename())) return;
  const auto text = ReadFile(absolute, kMaxProfileBytes);
  const auto json = text.ok() ? ParseJson(*text) : absl::StatusOr<JsonValue>(text.status());
  const JsonValue* count = json.ok() ? json->Find("img_per_s_n") : nullptr;
  if (count == nullptr || !count->is_int()) return;
  info.set_trial_count(
      static_cast<int32_t>(std::clamp<int64_t>(count->int_value(), 0, kMaxTrials)));
  const ResultNames names{path.filename() == "profile_repeat.json" ? "prof" : "infer",
                          std::max(info.trial_count(), 2)};
  const std::string job = JobOf(absolute);
  const fs::path shown = fs::path(info.path()).parent_path();
  for (int i = 0; i < info.trial_count(); ++i) {
    const std::string trial = path.parent_path() / names.Trial(i);
    std::error_code error;
    if (!fs::is_regular_file(trial + "/profile.json", error) || JobOf(trial) != job) continue;
    info.add_trials((shown / ProfilePathOf(names.Trial(i))).string());
  }
}

bool IsEntry(const std::string& name) {
  return IsRepeatFile(name) || name == "infer" || name == "prof" || IsTrialName(name, "infer") ||
         IsTrialName(name, "prof");
}

std::string ProfilePathOf(const std::string& entry) {
  return absl::EndsWith(entry, ".json") ? entry : absl::StrCat(entry, "/profile.json");
}

std::vector<v1::ProfileInfo> ScanProfiles(const std::string& project_dir, const std::string& prefix,
                                          const std::vector<v1::ProfileInfo>& known) {
  Known by_path;
  for (const v1::ProfileInfo& info : known) by_path[info.path()] = &info;
  std::vector<v1::ProfileInfo> profiles;
  ScanFolder(project_dir, prefix, false, by_path, profiles);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(absl::StrCat(project_dir, "/history"), error)) {
    ScanFolder(entry.path(), absl::StrCat(prefix, "/history/", entry.path().filename().string()),
               true, by_path, profiles);
  }
  return profiles;
}

std::vector<v1::ProfileInfo> DescribePlaces(const std::string& project_dir,
                                            const std::string& prefix,
                                            const std::vector<std::string>& places) {
  std::vector<v1::ProfileInfo> profiles;
  for (const std::string& place : places) {
    const std::string file = ProfilePathOf(place);
    auto info =
        DescribeProfile(absl::StrCat(project_dir, "/", file), absl::StrCat(prefix, "/", file));
    if (!info.ok()) continue;
    info->set_replaced(absl::StartsWith(place, "history/"));
    profiles.push_back(*std::move(info));
  }
  return profiles;
}

}  // namespace libreyolo::daemon
