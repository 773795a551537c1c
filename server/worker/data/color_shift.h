// Shifts hue, saturation and value of a picture in 8 bit, as the training augmentation does.
#pragma once

#include <cstdint>
#include <vector>

#include "server/worker/data/image.h"

namespace libreyolo::data {

// Steps of 8-bit HSV: hue counts 0 to 179 and wraps, the others 0 to 255 and are cut off.
struct ColorShift {
  int hue = 0;
  int saturation = 0;
  int value = 0;
};

// Also with a shift of zero the colours pass through 8-bit HSV and lose what that loses: this is
// the reference's arithmetic, to the bit.
void ShiftColors(const ColorShift& shift, Image& image);

}  // namespace libreyolo::data
