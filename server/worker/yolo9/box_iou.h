// Complete IoU (CIoU) of boxes x1, y1, x2, y2: overlap, centre distance, aspect ratio. Always
// computed in float32, as the reference does. Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>

namespace libreyolo::yolo9 {

struct Box {
  float x1, y1, x2, y2;
};

float CompleteIou(const Box& a, const Box& b);

// The same for tensors (..., 4) that broadcast against each other, with gradients except through
// the weight of the aspect term. The result has the type of `a`.
at::Tensor CompleteIou(const at::Tensor& a, const at::Tensor& b);

}  // namespace libreyolo::yolo9
