// Reads a dataset's YAML file: where its pictures are and what its classes are called.
//
// All forms of the reference are understood: `path`, `train` and `val` as a folder, a list file, a
// picture or a list of these, `nc`, `names` as a list or a map, `annotations`. `download` is
// recorded and never acted on here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "server/worker/data/fence.h"

namespace libreyolo::data {

struct DatasetConfig {
  std::string yaml_path;
  std::string root;                // where relative entries start; need not exist
  std::vector<std::string> train;  // as written; empty when the key is absent
  std::vector<std::string> val;
  // `nc`, else the number of names; absent when the file has neither.
  absl::optional<int> class_count;
  std::vector<std::string> class_names;  // class_count of them; gaps are called class_<i>
  std::string train_annotations;         // path of a COCO JSON file; empty: labels are text files
  std::string download;                  // as written; empty when absent
  Fence fence;                           // where its files may lie
};

// Limits on what is read from outside.
inline constexpr int64_t kMaxDatasetYamlBytes = int64_t{4} << 20;
inline constexpr int kMaxYamlDepth = 32;
inline constexpr int kMaxYamlNodes = 200'000;
inline constexpr int kMaxClassCount = 10'000;

// `yaml_path` names the file in errors and is where relative roots start; `datasets_folder` (may be
// empty) is searched first for a relative `path`, as the reference does.
//   DATASET_INVALID  not YAML, over a limit, or a key of the wrong kind; the message names the line
absl::StatusOr<DatasetConfig> ParseDatasetYaml(absl::string_view text, const std::string& yaml_path,
                                               const std::string& datasets_folder,
                                               const Fence& fence = Fence());

//   PATH_REFUSED       the file or its `path` leads over the fence
//   DATASET_NOT_FOUND  there is no such file
absl::StatusOr<DatasetConfig> ReadDatasetYaml(const std::string& yaml_path,
                                              const std::string& datasets_folder,
                                              const Fence& fence = Fence());

}  // namespace libreyolo::data
