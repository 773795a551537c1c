// Task-aligned assignment: which anchor is to predict which target, and with what score. A target
// takes the ten anchors inside it that predict it best already, by box and class together.
//
// The reference builds several matrices (batch, 300, anchors) for this. Here padding is not looked
// at; on the host no matrix exists at all, and on a device the batch is cut into pieces of bounded
// size. Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "server/worker/yolo9/variants.h"

namespace libreyolo::yolo9 {

// The anchors of an input size, levels in order, row-major.
struct AnchorGrid {
  struct Level {
    int64_t height;
    int64_t width;
    int64_t first;  // index of its first anchor
  };
  std::array<Level, kLevelCount> levels;
  int64_t anchor_count;
  at::Tensor centres;  // (A, 2) pixels
  at::Tensor strides;  // (A, 1)
};

// Detached predictions and targets of a batch, on one device.
struct AssignmentInput {
  at::Tensor boxes;         // (B, A, 4) pixels, contiguous
  at::Tensor class_logits;  // (B, class_count, A)
  at::Tensor
      targets;  // (B, N, 5): class, x1, y1, x2, y2 in pixels; rows with a class below 0 are padding
};

// The matched anchors, image by image, anchors ascending. All tensors are on the input's device.
struct Assignment {
  at::Tensor image;         // (M) int64
  at::Tensor anchor;        // (M) int64
  at::Tensor target;        // (M) int64, row in the image's targets
  at::Tensor class_id;      // (M) int64
  at::Tensor target_boxes;  // (M, 4) pixels
  at::Tensor scores;        // (M), 0..1, of the predictions' type
};

// For tensors on the host: float32 or float64.
Assignment AssignOnHost(const AssignmentInput& input, const AnchorGrid& grid);
// For any device; also works on the host, where the tests compare the two.
Assignment AssignByOps(const AssignmentInput& input, const AnchorGrid& grid);

}  // namespace libreyolo::yolo9
