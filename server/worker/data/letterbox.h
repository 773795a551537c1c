// Resizes a picture into a network's input as the reference does, bit for bit: 8-bit bilinear
// resize in 11-bit fixed point, grey (114) canvas, float32 / 255, planes R, G, B.
//
//   Letterboxer letterboxer;
//   std::vector<float> input(3 * 640 * 640);
//   letterboxer.Letterbox(image, 640, 640, PadMode::kTopLeft, input.data());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/worker/data/image.h"

namespace libreyolo::data {

// Where the picture lies on the canvas. A checkpoint says which one it was trained with.
enum class PadMode { kTopLeft, kCenter };

inline constexpr uint8_t kPadValue = 114;

// How a source picture maps onto a canvas: canvas = source * ratio + (left, top).
struct LetterboxGeometry {
  double ratio = 1;
  int width = 0;   // of the resized picture, pixels, at least 1
  int height = 0;  // likewise
  int left = 0;    // pixels of padding before it
  int top = 0;
};

// A rectangle of whole pixels.
struct PixelRect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

// All sizes are at least 1. Small pictures are enlarged. Pure.
LetterboxGeometry ComputeLetterbox(int source_width, int source_height, int canvas_width,
                                   int canvas_height, PadMode pad);

// Owns the working buffers: after the first picture of a size, calls allocate nothing. One thread
// at a time; make one for each thread. Images must not be empty.
class Letterboxer {
 public:
  Letterboxer();
  ~Letterboxer();
  Letterboxer(const Letterboxer&) = delete;
  Letterboxer& operator=(const Letterboxer&) = delete;

  // `image` resized to width x height. `out` must be another image.
  void Resize(const Image& image, int width, int height, Image& out);

  // Only the `part` of the resized picture, which lies within it, into rows of RGB that are
  // `stride_bytes` apart: for a mosaic, which shows a piece of each picture.
  void ResizePart(const Image& image, int width, int height, const PixelRect& part, uint8_t* out,
                  size_t stride_bytes);

  // The picture on its canvas, as bytes; `canvas` must be another image.
  LetterboxGeometry LetterboxBytes(const Image& image, int canvas_width, int canvas_height,
                                   PadMode pad, Image& canvas);

  // The same as floats in [0, 1]: `chw` receives 3 * canvas_height * canvas_width values.
  LetterboxGeometry Letterbox(const Image& image, int canvas_width, int canvas_height, PadMode pad,
                              float* chw);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Planes of floats in [0, 1] from packed RGB: chw[c][y][x] = rgb[y][x][c] / 255 in float32.
void ToFloatPlanes(const Image& image, float* chw);

}  // namespace libreyolo::data
