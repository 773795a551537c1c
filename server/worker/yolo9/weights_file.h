// What a checkpoint says about itself: its metadata and its tensors under our names, before any
// network is made. Private to this folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/yolo9/checkpoint.h"
#include "server/worker/yolo9/model_loader.h"

namespace libreyolo::yolo9 {

// The keys beside the weights. Absent or of another kind than expected: empty.
struct WeightsMetadata {
  std::optional<std::string> family;
  std::optional<std::string> size;
  std::optional<std::string> task;
  std::optional<int64_t> class_count;
  bool has_names = false;
  std::vector<std::pair<int64_t, std::string>> names;
  std::optional<std::string> letterbox;
  std::optional<int64_t> input_height;
  std::optional<int64_t> input_width;
};

class WeightsFile {
 public:
  // Errors as of Checkpoint::Open, and WEIGHTS_MISMATCH when it holds no YOLO9 detector.
  static absl::StatusOr<std::unique_ptr<WeightsFile>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const WeightsMetadata& metadata() const { return metadata_; }
  // In the file's order, under our names, each name once.
  const std::vector<std::pair<std::string, const PickleTensor*>>& tensors() const {
    return tensors_;
  }
  const PickleTensor* Find(absl::string_view name) const;
  Checkpoint& checkpoint() { return *checkpoint_; }
  // True when the names were those of the original YOLOv9 project.
  bool is_upstream() const { return is_upstream_; }
  // The size that the shapes show; "" when they do not tell.
  std::string SizeByShapes() const;

 private:
  explicit WeightsFile(std::string path) : path_(std::move(path)) {}
  absl::Status ReadRoot();
  void AddTensors(const PickleDict& dict);
  absl::Status CheckFamily() const;

  std::string path_;
  std::unique_ptr<Checkpoint> checkpoint_;
  WeightsMetadata metadata_;
  std::vector<std::pair<std::string, const PickleTensor*>> tensors_;
  bool is_upstream_ = false;
};

}  // namespace libreyolo::yolo9
