// Weights by name: where they are looked for. Looks only. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/confined_path.h"

namespace libreyolo::daemon {

struct WeightsPlaces {
  std::string workspace_root;
  LinkRule link_rule = LinkRule::kStayInside;  // of files in the workspace
  std::vector<std::string> server_folders;
  std::string cache_dir;
  std::string hub_base_url;  // without a slash at the end
};

struct FoundWeights {
  std::string path;    // absolute; empty when the file must be downloaded first
  std::string url;     // where from
  std::string target;  // where to: in the cache
};

// A bare name: weights/ in the workspace, the workspace, the server's folders, the cache, the hub
// (names it can have only). A name with a folder is a path in the workspace.
//   WEIGHTS_NOT_FOUND  says where it looked, and the ways out
//   PATH_REFUSED       the path leaves the workspace
absl::StatusOr<FoundWeights> FindWeights(const std::string& name, const WeightsPlaces& places);

// The same error for a download that failed; `why` goes into its message.
absl::Status WeightsNotFound(const std::string& name, const std::string& why);

}  // namespace libreyolo::daemon
