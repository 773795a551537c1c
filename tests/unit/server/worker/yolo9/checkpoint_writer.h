// Writes checkpoints for tests: pickles operation by operation, and ZIP files of stored entries. It
// can write what torch.save never would.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace libreyolo::yolo9::testing {

// Text of a pickle. Each function appends one operation or value.
class PickleWriter {
 public:
  PickleWriter() : text_("\x80\x02") {}
  PickleWriter& Raw(absl::string_view bytes);
  PickleWriter& Text(absl::string_view text);
  PickleWriter& Int(int32_t value);
  PickleWriter& Ints(const std::vector<int64_t>& values);  // a tuple
  PickleWriter& Global(absl::string_view module, absl::string_view name);
  // A tensor whose storage is record `key`.
  PickleWriter& Tensor(absl::string_view storage_type, absl::string_view key, int64_t element_count,
                       int64_t offset, const std::vector<int64_t>& sizes,
                       const std::vector<int64_t>& strides);
  std::string Stop() const { return text_ + "."; }

 private:
  std::string text_;
};

// A ZIP file of stored entries with right checksums.
std::string MakeZip(const std::vector<std::pair<std::string, std::string>>& entries);

// A checkpoint of float32 tensors that all view one storage of a single 0.5 (strides 0), and text
// or integer metadata.
struct SimpleCheckpoint {
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::pair<std::string, int>> integers;
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors;  // name, shape
  bool is_bare = false;  // a state dict without metadata or "model"
};
std::string MakeCheckpoint(const SimpleCheckpoint& content);

}  // namespace libreyolo::yolo9::testing
