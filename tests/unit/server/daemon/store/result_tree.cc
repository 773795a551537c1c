#include "tests/unit/server/daemon/store/result_tree.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/json/json_value.h"
#include "server/daemon/store/layout.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

std::string ProfileText(const std::string& job) {
  JsonValue json;
  json.Set("mode", "inference");
  if (!job.empty()) json.Set("job", job);
  return json.ToIndented();
}

void WriteOrDie(const std::string& path, const std::string& text) {
  LY_CHECK(MakeDirectories(fs::path(path).parent_path()).ok());
  LY_CHECK(WriteFile(path, text).ok());
}

std::string JobIn(const std::string& file) {
  const auto text = ReadFile(file);
  const auto json = text.ok() ? ParseJson(*text) : absl::StatusOr<JsonValue>(text.status());
  if (!json.ok()) return "half";
  const JsonValue* job = json->Find("job");
  return job == nullptr ? "" : job->string_value();
}

}  // namespace

Tree ReadTree(const std::string& project) {
  Tree tree;
  if (!fs::exists(project)) return tree;
  for (fs::recursive_directory_iterator it(project), end; it != end; ++it) {
    const std::string name = it->path().filename();
    const std::string place = fs::relative(it->path(), project);
    const bool result = absl::StartsWith(name, "infer") || absl::StartsWith(name, "prof");
    if (it->is_directory() && result) {
      const bool whole = fs::exists(it->path() / "profile_trace.json");
      tree[place] = whole ? JobIn(it->path() / "profile.json") : "half";
      it.disable_recursion_pending();
    } else if (!it->is_directory()) {
      tree[place] = JobIn(it->path());
    } else if (fs::is_empty(it->path())) {
      tree[place] = "empty";
    }
  }
  return tree;
}

void WriteResult(const std::string& folder, const std::string& job, const ResultNames& names) {
  for (const std::string& entry : names.Entries()) {
    const std::string path = absl::StrCat(folder, "/", entry);
    if (entry == names.RepeatFile()) {
      WriteOrDie(path, ProfileText(job));
      continue;
    }
    WriteOrDie(path + "/profile_trace.json", "{}");
    WriteOrDie(path + "/profile.json", ProfileText(job));
  }
}

void Stage(const std::string& project, const std::string& job, const ResultNames& names) {
  WriteResult(StagingDir(project, job), job, names);
}

Tree Entries(const std::string& prefix, const std::string& job, const ResultNames& names) {
  Tree tree;
  for (const std::string& entry : names.Entries())
    tree[prefix.empty() ? entry : absl::StrCat(prefix, "/", entry)] = job;
  return tree;
}

Tree Both(Tree a, const Tree& b) {
  a.insert(b.begin(), b.end());
  return a;
}

}  // namespace libreyolo::daemon
