// A decoded picture: 8 bits a channel, RGB, rows packed without padding. The rows' order is top to
// bottom, whatever the file said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace libreyolo::data {

struct Image {
  int width = 0;   // pixels
  int height = 0;  // pixels
  std::vector<uint8_t> rgb;

  // Sets the size; the pixels are left as they happen to be. Reusing an Image of the same or a
  // larger size allocates nothing.
  void Reset(int new_width, int new_height) {
    width = new_width;
    height = new_height;
    rgb.resize(static_cast<size_t>(new_width) * static_cast<size_t>(new_height) * 3);
  }
};

// The size of a picture as its header states it.
struct ImageSize {
  int width = 0;
  int height = 0;
};

}  // namespace libreyolo::data
