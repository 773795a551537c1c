#include "server/worker/data/scale_warp.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "server/worker/data/vectorize.h"

namespace libreyolo::data {
namespace {

LY_VECTORIZED void MixRows(const float* first, const float* second, float fraction, int count,
                           uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    const float value = first[i] + fraction * (second[i] - first[i]);
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(std::rint(value)));
  }
}

// The positions of one axis that are shown: [first, end).
void VisibleRange(double scale, double offset, int source_length, int length, int& first,
                  int& end) {
  // One more on either side than the taps need: they are computed in float32.
  const double low = (0 - offset) / scale;
  const double high = (length - 1 - offset) / scale;
  first = static_cast<int>(std::clamp(std::floor(low) - 1, 0.0, double(source_length)));
  end = static_cast<int>(std::clamp(std::floor(high) + 3, 0.0, double(source_length)));
}

}  // namespace

PixelRect VisiblePart(const ScaleTransform& transform, int source_width, int source_height,
                      int width, int height) {
  int x1 = 0;
  int x2 = 0;
  int y1 = 0;
  int y2 = 0;
  VisibleRange(transform.scale, transform.offset_x, source_width, width, x1, x2);
  VisibleRange(transform.scale, transform.offset_y, source_height, height, y1, y2);
  if (x1 >= x2 || y1 >= y2) return {};
  return {x1, y1, x2 - x1, y2 - y1};
}

void ScaleWarper::FillTaps(double scale, double offset, int count, std::vector<Tap>& taps) {
  const float step = static_cast<float>(1.0 / scale);
  const float start = static_cast<float>(-offset / scale);
  taps.resize(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const float position = step * static_cast<float>(i) + start;
    const float floor = std::floor(position);
    taps[static_cast<size_t>(i)] = {static_cast<int>(floor), position - floor};
  }
}

// Source row `row` with its columns mixed, or the border.
const float* ScaleWarper::MixedRow(const Image& source, int row, int width) {
  if (row < 0 || row >= source.height) return border_.data();
  const int slot = row & 1;
  float* mixed = mixed_[slot].data();
  if (held_[slot] == row) return mixed;
  held_[slot] = row;
  const uint8_t* pixels = source.rgb.data() + static_cast<size_t>(row) * source.width * 3;
  for (int i = 0; i < width; ++i) {
    const Tap& tap = columns_[static_cast<size_t>(i)];
    const bool has_first = tap.first >= 0 && tap.first < source.width;
    const bool has_second = tap.first >= -1 && tap.first + 1 < source.width;
    for (int c = 0; c < 3; ++c) {
      const float first = has_first ? pixels[3 * tap.first + c] : kPadValue;
      const float second = has_second ? pixels[3 * (tap.first + 1) + c] : kPadValue;
      mixed[3 * i + c] = first + tap.fraction * (second - first);
    }
  }
  return mixed;
}

void ScaleWarper::Warp(const Image& source, const ScaleTransform& transform, int width, int height,
                       Image& out) {
  LY_CHECK(&source != &out && transform.scale > 0);
  const size_t count = static_cast<size_t>(width) * 3;
  out.Reset(width, height);
  border_.assign(count, kPadValue);
  for (std::vector<float>& mixed : mixed_) mixed.resize(count);
  std::fill(std::begin(held_), std::end(held_), -1);
  FillTaps(transform.scale, transform.offset_x, width, columns_);
  FillTaps(transform.scale, transform.offset_y, height, rows_);
  for (int y = 0; y < height; ++y) {
    const Tap& tap = rows_[static_cast<size_t>(y)];
    const float* first = MixedRow(source, tap.first, width);
    const float* second = MixedRow(source, tap.first + 1, width);
    MixRows(first, second, tap.fraction, static_cast<int>(count), out.rgb.data() + y * count);
  }
}

}  // namespace libreyolo::data
