// The detection head: per level a box tower and a class tower, and the decoding of their maps.
// Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>
#include <vector>

#include "server/worker/yolo9/blocks.h"
#include "server/worker/yolo9/network.h"

namespace libreyolo::yolo9 {

// Initial value of the last convolution's biases.
inline constexpr double kInitialBoxBias = 1.0;
inline constexpr double kInitialClassBias = -10.0;

// Two 3x3 blocks and a plain 1x1 convolution with bias.
class Tower {
 public:
  struct Options {
    int in;
    int hidden;
    int out;
    int groups;
    double initial_bias;
  };
  Tower(TensorRegistry& registry, const std::string& name, const Options& options);
  at::Tensor Forward(const at::Tensor& x, PassMode mode) const;
  // Takes over the final convolution's new tensors, whose out channels may differ.
  void ReplaceFinal(at::Tensor weight, at::Tensor bias);

 private:
  ConvNorm hidden0_;
  ConvNorm hidden1_;
  at::Tensor weight_;
  at::Tensor bias_;
  int64_t groups_;
};

struct HeadOptions {
  std::array<int, kLevelCount> in;
  int class_count;
  int box_width;
  int class_width;
};

class Head {
 public:
  Head(TensorRegistry& registry, const std::string& name, const HeadOptions& options);
  LevelTensors Forward(const LevelTensors& features, PassMode mode) const;
  // Raw maps to (B, 4 + class_count, A). Keeps the grid of the last shape, so not for two threads
  // at once.
  at::Tensor Decode(const LevelTensors& raw_maps);
  void ReplaceFinalClass(int level, at::Tensor weight, at::Tensor bias);

 private:
  void MakeGrid(const LevelTensors& raw_maps);

  std::vector<Tower> box_towers_;
  std::vector<Tower> class_towers_;
  // Of the grid: centres (2, A) in cells, strides (1, A), bin values (1, 1, 16, 1).
  std::array<std::array<int64_t, 2>, kLevelCount> grid_shape_{};
  at::Tensor centres_;
  at::Tensor strides_;
  at::Tensor bins_;
};

}  // namespace libreyolo::yolo9
