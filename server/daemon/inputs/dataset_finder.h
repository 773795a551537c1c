// Datasets by name or path: where they are looked for. Looks only. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/confined_path.h"

namespace libreyolo::daemon {

struct DatasetPlaces {
  std::string workspace_root;
  LinkRule link_rule = LinkRule::kStayInside;  // of files in the workspace
  std::vector<std::string> server_folders;     // the datasets folders
  std::string cache_dir;
  std::string hub_base_url;  // without a slash at the end
};

struct FoundDataset {
  std::string yaml_path;   // absolute; empty when one of the others says how to get it
  bool is_sample = false;  // the built-in dataset, which the worker draws
  // A published archive, to be downloaded and unpacked into `folder`.
  std::string name;
  std::string url;
  std::string archive;
  std::string folder;
};

// The word as a YAML file or a folder that holds one, also with .yaml and .yml behind it: in the
// workspace, then in the datasets folders; then what an earlier download left; then the built-in
// names `sample` and `coco128`.
//   DATASET_NOT_FOUND  says where it looked, and the ways out
//   DATASET_INVALID    a folder without a YAML file, or with several and none called data.yaml
//   PATH_REFUSED       the path leaves the workspace
absl::StatusOr<FoundDataset> FindDataset(const std::string& name, const DatasetPlaces& places);

// The YAML file of an existing file or folder; `shown` is what the user called it.
absl::StatusOr<std::string> DatasetFileOf(const std::string& path, const std::string& shown);

// The same error for a download that failed; `why` goes into its message.
absl::Status DatasetNotFound(const std::string& name, const std::string& why);

}  // namespace libreyolo::daemon
