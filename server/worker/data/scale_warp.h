// Scales and moves a picture about its top left corner, with a border: the affine part of the
// training augmentation, whose rotation and shear are zero.
#pragma once

#include <cstdint>
#include <vector>

#include "server/worker/data/image.h"
#include "server/worker/data/letterbox.h"

namespace libreyolo::data {

// output(x, y) shows source((x - offset_x) / scale, (y - offset_y) / scale).
struct ScaleTransform {
  double scale = 1;  // over 0
  double offset_x = 0;
  double offset_y = 0;
};

// The part of a source of this size that an output of width x height can show; empty (0 x 0) when
// it shows the border alone.
PixelRect VisiblePart(const ScaleTransform& transform, int source_width, int source_height,
                      int width, int height);

// Owns the working buffers; one thread at a time.
class ScaleWarper {
 public:
  // Bilinear in float32, kPadValue outside. Only VisiblePart of `source` is read. `out` must be
  // another image.
  void Warp(const Image& source, const ScaleTransform& transform, int width, int height,
            Image& out);

 private:
  struct Tap {
    int first = 0;       // the position before; -1 to size - 1
    float fraction = 0;  // of the one after it
  };
  static void FillTaps(double scale, double offset, int count, std::vector<Tap>& taps);
  const float* MixedRow(const Image& source, int row, int width);

  std::vector<Tap> columns_;
  std::vector<Tap> rows_;
  std::vector<float> mixed_[2];
  int held_[2] = {-1, -1};
  std::vector<float> border_;
};

}  // namespace libreyolo::data
