// The dataset's YAML, and label rows, which come from the same hands.
#include <cstdint>
#include <cstdlib>

#include "server/worker/data/dataset_yaml.h"
#include "server/worker/data/label_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace libreyolo::data;  // NOLINT: a file of ten lines
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ParseDatasetYaml(text, "/nonexistent/data.yaml", "");
  if (config.ok() && config->class_count.has_value() &&
      config->class_names.size() != static_cast<size_t>(*config->class_count)) {
    std::abort();
  }
  for (const LabelRow& row : ParseLabelRows(text, 3).rows) {
    LabelBox box;
    if (ToPixels(row, {640, 480}, 0.5, box) && !(box.x1 >= 0 && box.x2 <= 320 && box.y2 <= 240)) {
      std::abort();
    }
  }
  return 0;
}
