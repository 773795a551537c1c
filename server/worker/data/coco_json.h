// Reads a COCO annotation file (instances_*.json).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/data/image.h"

namespace libreyolo::data {

// A box in pixels of the original picture, clipped to it.
struct CocoBox {
  double x1 = 0;
  double y1 = 0;
  double x2 = 0;
  double y2 = 0;
  int class_id = 0;
};

struct CocoImage {
  std::string file_name;
  ImageSize size;
  std::vector<CocoBox> boxes;
};

inline constexpr int64_t kMaxCocoBytes = int64_t{2} << 30;

// The pictures in the file's order with their boxes. Categories are matched to `class_names` by
// name. Crowds and empty areas are left out. A negative corner is moved to 0 without shortening the
// box, as the reference does.
//   DATASET_NOT_FOUND  no such file
//   DATASET_INVALID    not such JSON, or a category that `class_names` lacks
absl::StatusOr<std::vector<CocoImage>> ReadCocoJson(const std::string& path,
                                                    const std::vector<std::string>& class_names);

}  // namespace libreyolo::data
