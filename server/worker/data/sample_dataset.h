// The built-in dataset `sample`: drawn on demand, so that a training can be profiled on a bare
// machine. 512 pictures of 640 x 480 with balls, boxes and cones, the same on every machine.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/worker/data/image.h"
#include "server/worker/data/label_rows.h"

namespace libreyolo::data {

inline constexpr int kSampleDatasetCount = 512;
inline constexpr int kSampleDatasetWidth = 640;
inline constexpr int kSampleDatasetHeight = 480;

// A drawn picture and its boxes as label rows.
struct SamplePicture {
  Image image;
  std::vector<LabelRow> rows;
};

// Picture `index` of the dataset.
SamplePicture DrawSamplePicture(int index);

// Makes the dataset below `cache_folder` unless it is there, and returns the path of its YAML file.
// It appears whole or not at all; two processes may make it at once. `progress` hears how many of
// kSampleDatasetCount are done.
//   DATASET_INVALID  something else stands in its place
//   otherwise        the folder cannot be written
absl::StatusOr<std::string> EnsureSampleDataset(const std::string& cache_folder,
                                                absl::FunctionRef<void(int done)> progress);
absl::StatusOr<std::string> EnsureSampleDataset(const std::string& cache_folder);

}  // namespace libreyolo::data
