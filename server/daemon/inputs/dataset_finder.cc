#include "server/daemon/inputs/dataset_finder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/relative_path.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kSample[] = "sample";
constexpr char kCoco128[] = "coco128";
constexpr const char* kSuffixes[] = {"", ".yaml", ".yml"};

bool Exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

bool IsYaml(const fs::path& path) {
  const std::string suffix = path.extension().string();
  return suffix == ".yaml" || suffix == ".yml";
}

bool IsBuiltIn(const std::string& name) { return name == kSample || name == kCoco128; }

// The file for a word in the workspace; nothing when there is none.
absl::StatusOr<std::optional<std::string>> FindInWorkspace(const std::string& clean,
                                                           const DatasetPlaces& places) {
  for (const char* suffix : kSuffixes) {
    const std::string word = clean + suffix;
    const auto path = ResolveConfined(places.workspace_root, word, places.link_rule);
    if (HasReason(path.status(), reason::kPathRefused)) return path.status();
    if (!path.ok() || !Exists(*path)) continue;
    absl::StatusOr<std::string> file = DatasetFileOf(*path, word);
    if (file.ok()) return std::optional<std::string>(*std::move(file));
    // A folder that happens to bear a built-in name hides nothing.
    if (!IsBuiltIn(clean)) return file.status();
  }
  return std::optional<std::string>();
}

}  // namespace

absl::Status DatasetNotFound(const std::string& name, const std::string& why) {
  return MakeError(reason::kDatasetNotFound,
                   absl::StrCat("dataset \"", name, "\" was not found: ", why),
                   {"name the dataset's YAML file: libreyolo profile run ./path/to/data.yaml",
                    "libreyolo profile run sample trains on a built-in dataset"},
                   {{"dataset", name}});
}

absl::StatusOr<std::string> DatasetFileOf(const std::string& path, const std::string& shown) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  std::vector<std::string> files;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (IsYaml(entry->path())) files.push_back(entry->path().filename().string());
  }
  std::sort(files.begin(), files.end());
  const auto named = std::find(files.begin(), files.end(), "data.yaml");
  if (named != files.end()) return absl::StrCat(path, "/", *named);
  if (files.size() == 1) return absl::StrCat(path, "/", files[0]);
  if (files.empty()) {
    return MakeError(reason::kDatasetInvalid,
                     absl::StrCat("the folder ", shown, " holds no dataset file (.yaml)"),
                     {"write a data.yaml with the keys train and names into it"},
                     {{"path", shown}});
  }
  return MakeError(reason::kDatasetInvalid,
                   absl::StrCat("the folder ", shown,
                                " holds several dataset files: ", absl::StrJoin(files, ", ")),
                   {absl::StrCat("name one of them: ", shown, "/", files[0])}, {{"path", shown}});
}

absl::StatusOr<FoundDataset> FindDataset(const std::string& name, const DatasetPlaces& places) {
  LY_ASSIGN_OR_RETURN(const std::string clean, NormalizeRelativePath(name));
  FoundDataset found;
  LY_ASSIGN_OR_RETURN(std::optional<std::string> in_workspace, FindInWorkspace(clean, places));
  if (in_workspace.has_value()) {
    found.yaml_path = *std::move(in_workspace);
    return found;
  }
  for (const std::string& folder : places.server_folders) {
    for (const char* suffix : kSuffixes) {
      const std::string path = absl::StrCat(folder, "/", clean, suffix);
      if (!Exists(path)) continue;
      const auto file = DatasetFileOf(path, clean + suffix);
      if (!file.ok() && !IsBuiltIn(clean)) return file.status();
      if (!file.ok()) continue;
      found.yaml_path = *file;
      return found;
    }
  }
  if (clean == kSample) {
    found.is_sample = true;
    return found;
  }
  if (clean != kCoco128) {
    return DatasetNotFound(name,
                           "looked in the workspace and the datasets folders, and the built-in "
                           "names are sample and coco128");
  }
  found.name = clean;
  found.folder = absl::StrCat(places.cache_dir, "/datasets/", clean);
  const std::string ready = found.folder + "/data.yaml";
  if (Exists(ready)) {
    found.yaml_path = ready;
    return found;
  }
  // Datasets stand beside the models: https://<hub>/datasets/<organisation>/<name>.
  std::string base = places.hub_base_url;
  const size_t slash = base.rfind('/');
  if (slash != std::string::npos) base.insert(slash, "/datasets");
  found.url = absl::StrCat(base, "/", clean, "/resolve/main/", clean, ".zip");
  found.archive = absl::StrCat(places.cache_dir, "/datasets/", clean, ".zip");
  return found;
}

}  // namespace libreyolo::daemon
