// A training split: which pictures there are, their sizes and their boxes. Pixels stay on disk.
//
//   LY_ASSIGN_OR_RETURN(const DatasetConfig config, ReadDatasetYaml(path, datasets_folder));
//   LY_ASSIGN_OR_RETURN(const Dataset dataset, LoadTrainSplit(config, {640, 640}));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "server/worker/data/dataset_yaml.h"
#include "server/worker/data/label_rows.h"

namespace libreyolo::data {

struct DatasetItem {
  std::string image_path;
  ImageSize size;  // as its header states it
  // In pixels of the picture scaled to fit the network's input. Empty: background.
  std::vector<LabelBox> boxes;
};

// What was left out. A profile mentions it; it is no error while pictures remain.
struct DatasetProblems {
  int unreadable_image_count = 0;  // missing, or no header of a picture
  int unsupported_image_count = 0;
  int skipped_label_count = 0;        // label rows that are wrong
  std::vector<std::string> examples;  // the first few, with file and fault
};

struct Dataset {
  int input_width = 0;  // pixels, of the network
  int input_height = 0;
  int class_count = 0;
  std::vector<DatasetItem> items;  // at least one
  DatasetProblems problems;
};

struct DatasetOptions {
  int input_width = 640;
  int input_height = 640;
  // For a file with neither `nc` nor `names`: the model's own.
  int default_class_count = 80;
  int thread_count = 8;  // readers of headers and labels, at most 8 are used
};

// How much a picture of this size is scaled to fit the input; exact, where the pixels' size is
// truncated to whole numbers (ScaledSize).
double FitRatio(const ImageSize& size, int input_width, int input_height);
ImageSize ScaledSize(const ImageSize& size, int input_width, int input_height);

// Reads the train split: lists its pictures, opens each header, reads each label file.
//   PATH_REFUSED       a file leads over the config's fence
//   DATASET_INVALID    no usable picture; a list, folder or annotation file that cannot be read
//   DATASET_NOT_FOUND  an annotation file that is missing
absl::StatusOr<Dataset> LoadTrainSplit(const DatasetConfig& config, const DatasetOptions& options);

}  // namespace libreyolo::data
