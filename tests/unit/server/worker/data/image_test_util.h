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

// Seeded bytes; tests/data/images/make_resize_cases.py makes the same.
inline Image NoiseImage(int width, int height, uint32_t seed) {
  Image image;
  image.Reset(width, height);
  uint32_t state = seed;
  for (uint8_t& value : image.rgb) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<uint8_t>(state >> 24);
  }
  return image;
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
