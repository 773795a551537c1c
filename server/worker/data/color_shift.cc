#include "server/worker/data/color_shift.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "server/worker/data/vectorize.h"

namespace libreyolo::data {
namespace {

constexpr int kHueCount = 180;
constexpr int kShift = 12;  // of the fixed-point reciprocals below
constexpr int kHalf = 1 << (kShift - 1);

// RGB to HSV divides by the value and by the span between the largest and smallest channel.
struct Tables {
  // Reciprocals, fixed point: 255 / value and 180 / (6 * span).
  std::array<int32_t, 256> saturation_scale{};
  std::array<int32_t, 256> hue_scale{};
  // HSV to RGB: channel = value * (1 - saturation * weight[hue]).
  std::array<std::array<float, kHueCount>, 3> weight{};

  Tables() {
    for (int i = 1; i < 256; ++i) {
      saturation_scale[i] = static_cast<int32_t>(std::lrint((255 << kShift) / double{1.0 * i}));
      hue_scale[i] = static_cast<int32_t>(std::lrint((kHueCount << kShift) / (6.0 * i)));
    }
    for (int hue = 0; hue < kHueCount; ++hue) FillWeights(hue);
  }

  // The six sectors of the colour circle: in each one channel is full, one empty, one between.
  void FillWeights(int hue) {
    enum { kFull, kEmpty, kFalling, kRising };
    constexpr int kRoles[6][3] = {{kFull, kRising, kEmpty}, {kFalling, kFull, kEmpty},
                                  {kEmpty, kFull, kRising}, {kEmpty, kFalling, kFull},
                                  {kRising, kEmpty, kFull}, {kFull, kEmpty, kFalling}};
    const float position = static_cast<float>(hue) * (6.0F / kHueCount);
    const int sector = static_cast<int>(position);
    const float fraction = position - static_cast<float>(sector);
    const float weights[4] = {0.0F, 1.0F, fraction, 1.0F - fraction};
    for (int c = 0; c < 3; ++c) weight[c][hue] = weights[kRoles[sector][c]];
  }
};

const Tables& GetTables() {
  static const Tables tables;
  return tables;
}

// One row: the loops run over separate planes, which is what lets the compiler vectorise them.
struct Planes {
  int32_t* red;
  int32_t* green;
  int32_t* blue;
};

LY_VECTORIZED void ToHsv(const Tables& tables, int count, const Planes& planes) {
  int32_t* const reds = planes.red;
  int32_t* const greens = planes.green;
  int32_t* const blues = planes.blue;
  for (int i = 0; i < count; ++i) {
    const int32_t red = reds[i];
    const int32_t green = greens[i];
    const int32_t blue = blues[i];
    const int32_t value = std::max(std::max(red, green), blue);
    const int32_t span = value - std::min(std::min(red, green), blue);
    const int32_t saturation = (span * tables.saturation_scale[value] + kHalf) >> kShift;
    const int32_t of_red = green - blue;
    const int32_t of_green = blue - red + 2 * span;
    const int32_t of_blue = red - green + 4 * span;
    int32_t hue = value == red ? of_red : (value == green ? of_green : of_blue);
    hue = (hue * tables.hue_scale[span] + kHalf) >> kShift;
    hue += hue < 0 ? kHueCount : 0;
    reds[i] = hue;
    greens[i] = saturation;
    blues[i] = value;
  }
}

LY_VECTORIZED void Shift(const ColorShift& shift, int count, const Planes& planes) {
  // Made positive once, so that one subtraction brings every hue back.
  const int32_t hue_shift = ((shift.hue % kHueCount) + kHueCount) % kHueCount;
  for (int i = 0; i < count; ++i) {
    const int32_t hue = planes.red[i] + hue_shift;
    planes.red[i] = hue >= kHueCount ? hue - kHueCount : hue;
    planes.green[i] = std::clamp(planes.green[i] + shift.saturation, 0, 255);
    planes.blue[i] = std::clamp(planes.blue[i] + shift.value, 0, 255);
  }
}

LY_VECTORIZED void ToRgb(const Tables& tables, int count, const Planes& planes) {
  constexpr float kUnit = 1.0F / 255.0F;
  for (int i = 0; i < count; ++i) {
    const int32_t hue = planes.red[i];
    const float minus_saturation = -(static_cast<float>(planes.green[i]) * kUnit);
    const float value = static_cast<float>(planes.blue[i]) * kUnit;
    // Fused and cut off, not rounded: other roundings are off by one in a third of the colours.
    planes.red[i] = static_cast<int32_t>(
        value * std::fma(minus_saturation, tables.weight[0][hue], 1.0F) * 255.0F);
    planes.green[i] = static_cast<int32_t>(
        value * std::fma(minus_saturation, tables.weight[1][hue], 1.0F) * 255.0F);
    planes.blue[i] = static_cast<int32_t>(
        value * std::fma(minus_saturation, tables.weight[2][hue], 1.0F) * 255.0F);
  }
}

LY_VECTORIZED void Split(const uint8_t* rgb, int count, const Planes& planes) {
  for (int i = 0; i < count; ++i) {
    planes.red[i] = rgb[3 * i];
    planes.green[i] = rgb[3 * i + 1];
    planes.blue[i] = rgb[3 * i + 2];
  }
}

LY_VECTORIZED void Join(const Planes& planes, int count, uint8_t* rgb) {
  for (int i = 0; i < count; ++i) {
    rgb[3 * i] = static_cast<uint8_t>(planes.red[i]);
    rgb[3 * i + 1] = static_cast<uint8_t>(planes.green[i]);
    rgb[3 * i + 2] = static_cast<uint8_t>(planes.blue[i]);
  }
}

}  // namespace

void ShiftColors(const ColorShift& shift, Image& image) {
  // A block stays in the first-level cache through all five loops.
  constexpr size_t kBlock = 512;
  alignas(64) int32_t red[kBlock];
  alignas(64) int32_t green[kBlock];
  alignas(64) int32_t blue[kBlock];
  const Planes planes{red, green, blue};
  const Tables& tables = GetTables();
  const size_t pixel_count = image.rgb.size() / 3;
  for (size_t start = 0; start < pixel_count; start += kBlock) {
    const int count = static_cast<int>(std::min(kBlock, pixel_count - start));
    uint8_t* pixels = image.rgb.data() + start * 3;
    Split(pixels, count, planes);
    ToHsv(tables, count, planes);
    Shift(shift, count, planes);
    ToRgb(tables, count, planes);
    Join(planes, count, pixels);
  }
}

}  // namespace libreyolo::data
