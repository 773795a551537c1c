#include "server/daemon/inputs/weights_finder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/relative_path.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

bool IsReadableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), R_OK) == 0;
}

// "LibreYOLO9t.pt" in any case: the model's repository is named after it. Empty for other names.
std::string HubModel(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* size : {"t", "s", "m", "c"}) {
    if (lower == absl::StrCat("libreyolo9", size, ".pt")) return absl::StrCat("LibreYOLO9", size);
  }
  return {};
}

}  // namespace

absl::Status WeightsNotFound(const std::string& name, const std::string& why) {
  return MakeError(
      reason::kWeightsNotFound, absl::StrCat("weights \"", name, "\" were not found: ", why),
      {"put the file into the folder weights/", "name its path with --weights ./path/to/file.pt",
       "--weights random measures initialised weights: the same speed, no meaningful detections"},
      {{"weights", name}});
}

absl::StatusOr<FoundWeights> FindWeights(const std::string& name, const WeightsPlaces& places) {
  LY_ASSIGN_OR_RETURN(const std::string clean, NormalizeRelativePath(name));
  const bool has_folder = absl::StrContains(clean, '/');
  std::vector<std::string> in_workspace = {clean};
  if (!has_folder) in_workspace.insert(in_workspace.begin(), absl::StrCat("weights/", clean));
  for (const std::string& relative : in_workspace) {
    const auto path = ResolveConfined(places.workspace_root, relative, places.link_rule);
    if (path.ok() && IsReadableFile(*path)) return FoundWeights{*path, "", ""};
    if (HasReason(path.status(), reason::kPathRefused)) return path.status();
  }
  if (has_folder) return WeightsNotFound(name, "there is no such file in the workspace");
  std::vector<std::string> elsewhere = places.server_folders;
  elsewhere.push_back(places.cache_dir + "/weights");
  for (const std::string& folder : elsewhere) {
    const std::string path = absl::StrCat(folder, "/", clean);
    if (IsReadableFile(path)) return FoundWeights{path, "", ""};
  }
  const std::string model = HubModel(clean);
  if (model.empty()) {
    return WeightsNotFound(
        name,
        "looked in weights/, the workspace and the cache, and the model hub has no such name");
  }
  // One copy, however the name was written.
  const std::string target = absl::StrCat(places.cache_dir, "/weights/", model, ".pt");
  if (IsReadableFile(target)) return FoundWeights{target, "", ""};
  return FoundWeights{
      "", absl::StrCat(places.hub_base_url, "/", model, "/resolve/main/", model, ".pt"), target};
}

}  // namespace libreyolo::daemon
