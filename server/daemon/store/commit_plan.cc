#include "server/daemon/store/commit_plan.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "server/daemon/store/result_files.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

bool IsAbsentOrEmptyFolder(const std::string& path) {
  std::error_code error;
  return !Exists(path) || (fs::is_directory(path, error) && fs::is_empty(path, error));
}

}  // namespace

std::vector<std::string> SurplusEntries(const std::string& project_dir, const ResultNames& names) {
  std::vector<std::string> surplus;
  if (names.trial_count == 1) return surplus;
  const std::vector<std::string> entries = names.Entries();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(project_dir, error)) {
    const std::string name = entry.path().filename();
    if (IsTrialName(name, names.base) &&
        std::find(entries.begin(), entries.end(), name) == entries.end())
      surplus.push_back(name);
  }
  std::sort(surplus.begin(), surplus.end());
  return surplus;
}

std::string ResultNames::Trial(int trial) const {
  return trial_count == 1 ? base : absl::StrCat(base, "_", trial);
}

std::string ResultNames::RepeatFile() const {
  if (trial_count == 1) return {};
  return base == "prof" ? "profile_repeat.json" : base + "_repeat.json";
}

std::string ResultNames::Profile() const {
  return trial_count == 1 ? base + "/profile.json" : RepeatFile();
}

std::vector<std::string> ResultNames::Entries() const {
  std::vector<std::string> entries;
  for (int i = 0; i < trial_count; ++i) entries.push_back(Trial(i));
  if (trial_count > 1) entries.push_back(RepeatFile());
  return entries;
}

CommitPlan MakeCommitPlan(const std::string& project_dir, const ResultNames& names) {
  CommitPlan plan{names, {}};
  std::vector<std::string> replaced = SurplusEntries(project_dir, names);
  for (const std::string& entry : names.Entries()) {
    if (Exists(absl::StrCat(project_dir, "/", entry))) replaced.push_back(entry);
  }
  std::map<std::string, std::string> folder_of_owner;
  std::set<std::string> taken;
  // The repeat file is written last: its time is that of the whole.
  const std::string nameless =
      replaced.empty() ? "" : NameByTime(absl::StrCat(project_dir, "/", replaced.back()));
  for (const std::string& entry : replaced) {
    std::string owner = JobOf(absl::StrCat(project_dir, "/", entry));
    if (owner.empty()) owner = nameless;
    std::string& folder = folder_of_owner[owner];
    for (int i = 0; folder.empty(); ++i) {
      const std::string name = i == 0 ? owner : absl::StrCat(owner, "-", i);
      if (taken.count(name) == 0 &&
          IsAbsentOrEmptyFolder(absl::StrCat(project_dir, "/history/", name)))
        folder = name;
    }
    taken.insert(folder);
    plan.history[entry] = folder;
  }
  return plan;
}

std::string CommitPlanText(const CommitPlan& plan) {
  JsonValue history = JsonValue::Object();
  for (const auto& [entry, folder] : plan.history) history.Set(entry, folder);
  JsonValue json;
  json.Set("base", plan.names.base);
  json.Set("trial_count", plan.names.trial_count);
  json.Set("history", std::move(history));
  return json.ToCompact();
}

absl::StatusOr<CommitPlan> ReadCommitPlan(const std::string& path) {
  LY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  LY_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(text));
  const JsonValue* base = json.Find("base");
  const JsonValue* count = json.Find("trial_count");
  const JsonValue* history = json.Find("history");
  if (base == nullptr || !base->is_string() || count == nullptr || !count->is_int() ||
      history == nullptr || !history->is_object()) {
    return absl::InternalError(absl::StrCat(path, " is damaged"));
  }
  CommitPlan plan{{base->string_value(), static_cast<int>(count->int_value())}, {}};
  for (const auto& [entry, folder] : history->object()) {
    if (!folder.is_string()) return absl::InternalError(absl::StrCat(path, " is damaged"));
    plan.history[entry] = folder.string_value();
  }
  return plan;
}

}  // namespace libreyolo::daemon
