#include "server/worker/data/letterbox.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "server/worker/data/vectorize.h"

namespace libreyolo::data {
namespace {

// Weights are fractions of 2048.
constexpr int kWeightBits = 11;
constexpr float kWeightOne = 1 << kWeightBits;

// One output column or row: the two source positions it mixes and their weights.
struct Tap {
  int32_t first;
  int32_t second;
  int32_t first_weight;
  int32_t second_weight;
};

int32_t RoundWeight(float fraction) {
  // Half to even: the default rounding mode, which nothing in the worker changes.
  return static_cast<int32_t>(std::lrintf(fraction * kWeightOne));
}

enum class Axis { kColumns, kRows };

// Half-pixel centres. At the borders columns drop the fraction, rows keep it and only clamp the two
// positions: the reference's resize treats its axes differently, and so the last bit depends on it.
void FillTaps(int source_length, int output_length, Axis axis, std::vector<Tap>& taps) {
  const double scale = 1.0 / (static_cast<double>(output_length) / source_length);
  const int last = source_length - 1;
  taps.resize(static_cast<size_t>(output_length));
  for (int i = 0; i < output_length; ++i) {
    const float position = static_cast<float>((i + 0.5) * scale - 0.5);
    int index = static_cast<int>(std::floor(position));
    float fraction = position - static_cast<float>(index);
    if (axis == Axis::kColumns && (index < 0 || index >= last)) fraction = 0;
    Tap& tap = taps[static_cast<size_t>(i)];
    tap.first = std::clamp(index, 0, last);
    tap.second = std::clamp(axis == Axis::kColumns ? tap.first + 1 : index + 1, 0, last);
    tap.first_weight = RoundWeight(1.0F - fraction);
    tap.second_weight = RoundWeight(fraction);
  }
}

LY_VECTORIZED void MixColumns(const uint8_t* row, const Tap* taps, int width, int32_t* out) {
  for (int i = 0; i < width; ++i) {
    const Tap& tap = taps[i];
    const uint8_t* first = row + tap.first * 3;
    const uint8_t* second = row + tap.second * 3;
    for (int c = 0; c < 3; ++c) {
      out[3 * i + c] = first[c] * tap.first_weight + second[c] * tap.second_weight;
    }
  }
}

LY_VECTORIZED void MixRows(const int32_t* first, const int32_t* second, int32_t first_weight,
                           int32_t second_weight, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    const int32_t a = (first_weight * (first[i] >> 4)) >> 16;
    const int32_t b = (second_weight * (second[i] >> 4)) >> 16;
    out[i] = static_cast<uint8_t>(std::min((a + b + 2) >> 2, 255));
  }
}

// A picture of exactly twice the size in both directions: the mean of each block of four.
LY_VECTORIZED void HalveRows(const uint8_t* upper, const uint8_t* lower, int width, uint8_t* out) {
  for (int i = 0; i < width; ++i) {
    for (int c = 0; c < 3; ++c) {
      const int sum =
          upper[6 * i + c] + upper[6 * i + 3 + c] + lower[6 * i + c] + lower[6 * i + 3 + c];
      out[3 * i + c] = static_cast<uint8_t>((sum + 2) >> 2);
    }
  }
}

// The division stays a division: a product with 1/255 differs in the last bit.
LY_VECTORIZED void SplitRow(const uint8_t* rgb, int width, float* red, float* green, float* blue) {
  for (int i = 0; i < width; ++i) {
    red[i] = static_cast<float>(rgb[3 * i]) / 255.0F;
    green[i] = static_cast<float>(rgb[3 * i + 1]) / 255.0F;
    blue[i] = static_cast<float>(rgb[3 * i + 2]) / 255.0F;
  }
}

}  // namespace

struct Letterboxer::State {
  std::vector<Tap> columns;
  std::vector<Tap> rows;
  std::vector<int32_t> mixed[2];  // columns mixed, rows not yet: the two source rows in use
  Image canvas;

  // Writes `part` of the picture resized to width x height at `out`, whose rows are `stride_bytes`
  // apart.
  void Resize(const Image& image, int width, int height, const PixelRect& part, uint8_t* out,
              size_t stride_bytes);
  void Mix(const Image& image, int width, int height, const PixelRect& part, uint8_t* out,
           size_t stride_bytes);
};

void Letterboxer::State::Resize(const Image& image, int width, int height, const PixelRect& part,
                                uint8_t* out, size_t stride_bytes) {
  const size_t source_stride = static_cast<size_t>(image.width) * 3;
  if (width == image.width && height == image.height) {
    const uint8_t* source = image.rgb.data() + part.y * source_stride + part.x * 3;
    for (int y = 0; y < part.height; ++y) {
      std::memcpy(out + y * stride_bytes, source + y * source_stride,
                  static_cast<size_t>(part.width) * 3);
    }
  } else if (image.width == int64_t{width} * 2 && image.height == int64_t{height} * 2) {
    const uint8_t* source = image.rgb.data() + 2 * part.y * source_stride + part.x * 6;
    for (int y = 0; y < part.height; ++y) {
      const uint8_t* upper = source + 2 * y * source_stride;
      HalveRows(upper, upper + source_stride, part.width, out + y * stride_bytes);
    }
  } else {
    Mix(image, width, height, part, out, stride_bytes);
  }
}

void Letterboxer::State::Mix(const Image& image, int width, int height, const PixelRect& part,
                             uint8_t* out, size_t stride_bytes) {
  FillTaps(image.width, width, Axis::kColumns, columns);
  FillTaps(image.height, height, Axis::kRows, rows);
  const int count = part.width * 3;
  for (std::vector<int32_t>& row : mixed) row.resize(static_cast<size_t>(count));
  int held[2] = {-1, -1};  // which source row each of `mixed` holds
  for (int y = 0; y < part.height; ++y) {
    const Tap& tap = rows[static_cast<size_t>(part.y + y)];
    // Neighbouring rows differ in parity, so that both fit, and an enlarged picture finds its rows
    // again for several output rows.
    for (const int32_t row : {tap.first, tap.second}) {
      const int slot = row & 1;
      if (held[slot] == row) continue;
      MixColumns(image.rgb.data() + static_cast<size_t>(row) * image.width * 3,
                 columns.data() + part.x, part.width, mixed[slot].data());
      held[slot] = row;
    }
    MixRows(mixed[tap.first & 1].data(), mixed[tap.second & 1].data(), tap.first_weight,
            tap.second_weight, count, out + y * stride_bytes);
  }
}

LetterboxGeometry ComputeLetterbox(int source_width, int source_height, int canvas_width,
                                   int canvas_height, PadMode pad) {
  LetterboxGeometry geometry;
  geometry.ratio = std::min(static_cast<double>(canvas_height) / source_height,
                            static_cast<double>(canvas_width) / source_width);
  geometry.width = std::max(static_cast<int>(source_width * geometry.ratio), 1);
  geometry.height = std::max(static_cast<int>(source_height * geometry.ratio), 1);
  if (pad == PadMode::kCenter) {
    geometry.left = (canvas_width - geometry.width) / 2;
    geometry.top = (canvas_height - geometry.height) / 2;
  }
  return geometry;
}

Letterboxer::Letterboxer() : state_(std::make_unique<State>()) {}
Letterboxer::~Letterboxer() = default;

void Letterboxer::Resize(const Image& image, int width, int height, Image& out) {
  LY_CHECK(&image != &out);
  out.Reset(width, height);
  ResizePart(image, width, height, {0, 0, width, height}, out.rgb.data(),
             static_cast<size_t>(width) * 3);
}

void Letterboxer::ResizePart(const Image& image, int width, int height, const PixelRect& part,
                             uint8_t* out, size_t stride_bytes) {
  LY_CHECK(part.x >= 0 && part.y >= 0 && part.x + part.width <= width &&
           part.y + part.height <= height);
  if (part.width <= 0 || part.height <= 0) return;
  state_->Resize(image, width, height, part, out, stride_bytes);
}

LetterboxGeometry Letterboxer::LetterboxBytes(const Image& image, int canvas_width,
                                              int canvas_height, PadMode pad, Image& canvas) {
  LY_CHECK(&image != &canvas);
  const LetterboxGeometry geometry =
      ComputeLetterbox(image.width, image.height, canvas_width, canvas_height, pad);
  canvas.Reset(canvas_width, canvas_height);
  const size_t stride = static_cast<size_t>(canvas_width) * 3;
  if (geometry.width != canvas_width || geometry.height != canvas_height) {
    std::fill(canvas.rgb.begin(), canvas.rgb.end(), kPadValue);
  }
  uint8_t* origin = canvas.rgb.data() + static_cast<size_t>(geometry.top) * stride +
                    static_cast<size_t>(geometry.left) * 3;
  ResizePart(image, geometry.width, geometry.height, {0, 0, geometry.width, geometry.height},
             origin, stride);
  return geometry;
}

LetterboxGeometry Letterboxer::Letterbox(const Image& image, int canvas_width, int canvas_height,
                                         PadMode pad, float* chw) {
  const LetterboxGeometry geometry =
      LetterboxBytes(image, canvas_width, canvas_height, pad, state_->canvas);
  ToFloatPlanes(state_->canvas, chw);
  return geometry;
}

void ToFloatPlanes(const Image& image, float* chw) {
  const size_t width = static_cast<size_t>(image.width);
  const size_t plane = width * static_cast<size_t>(image.height);
  for (int y = 0; y < image.height; ++y) {
    float* red = chw + static_cast<size_t>(y) * width;
    SplitRow(image.rgb.data() + static_cast<size_t>(y) * width * 3, image.width, red, red + plane,
             red + 2 * plane);
  }
}

}  // namespace libreyolo::data
