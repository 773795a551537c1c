// From the network's predictions to detections in the original picture: selection by score, mapping
// back through the letterbox, class-wise non-maximum suppression by torchvision's rules. Functions
// are pure; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "server/worker/yolo9/model_loader.h"

namespace libreyolo::yolo9 {

struct Detection {
  int class_id;
  float score;
  float x1, y1, x2, y2;  // pixels of the original picture
};

struct PostprocessOptions {
  double conf = 0.25;  // a score must be greater
  double iou = 0.45;   // boxes that overlap more are suppressed
  int max_det = 300;
};

// How a picture was put into the network's input.
struct LetterboxGeometry {
  int original_width;
  int original_height;
  int input_width;
  int input_height;
  LetterboxPad pad;
};

// `predictions`: (4 + class_count, A), one image's rows of EvalOutput::predictions, any device and
// floating type. Sorted by descending score. May throw c10::Error: callers go through CallTorch.
//
// On the CPU one pass over the scores picks the candidates. On another device that happens there,
// and only the candidates are copied; suppression itself always runs on the host, over at most
// max(max_det, 30000) boxes.
std::vector<Detection> Postprocess(const at::Tensor& predictions, const LetterboxGeometry& geometry,
                                   const PostprocessOptions& options);

namespace internal {
// The path of other devices, which the tests also take on the CPU.
std::vector<Detection> PostprocessByOps(const at::Tensor& predictions,
                                        const LetterboxGeometry& geometry,
                                        const PostprocessOptions& options);
}  // namespace internal

}  // namespace libreyolo::yolo9
