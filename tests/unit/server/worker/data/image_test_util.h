// Helpers of this folder's tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/json/json_value.h"
#include "server/worker/data/image.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::data {

inline uint32_t Crc32(const std::vector<uint8_t>& bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

inline std::string TestImagePath(const std::string& name) {
  return std::string(LIBREYOLO_SOURCE_DIR) + "/tests/data/images/" + name;
}

// A JSON file that the test cannot do without.
inline JsonValue ReadJsonOrDie(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  EXPECT_OK(text);
  absl::StatusOr<JsonValue> json = ParseJson(text.ok() ? *text : "null");
  EXPECT_OK(json);
  return json.ok() ? *std::move(json) : JsonValue();
}

}  // namespace libreyolo::data
