#include "server/worker/yolo9/head.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>

#include <utility>

namespace libreyolo::yolo9 {
namespace {

constexpr int kBoxGroups = 4;  // one for each side of a box

}  // namespace

Tower::Tower(TensorRegistry& registry, const std::string& name, const Options& options)
    : hidden0_(registry, name + ".0", {.in = options.in, .out = options.hidden, .kernel = 3}),
      hidden1_(
          registry, name + ".1",
          {.in = options.hidden, .out = options.hidden, .kernel = 3, .groups = options.groups}),
      weight_(
          registry.ConvWeight(name + ".2.weight", options.hidden, options.out, 1, options.groups)),
      bias_(registry.Vector(name + ".2.bias", options.out, options.initial_bias)),
      groups_(options.groups) {}

at::Tensor Tower::Forward(const at::Tensor& x, PassMode mode) const {
  constexpr int64_t kOne[] = {1, 1};
  constexpr int64_t kZero[] = {0, 0};
  return at::conv2d(hidden1_.Forward(hidden0_.Forward(x, mode), mode), weight_, bias_,
                    at::IntArrayRef(kOne), at::IntArrayRef(kZero), at::IntArrayRef(kOne), groups_);
}

void Tower::ReplaceFinal(at::Tensor weight, at::Tensor bias) {
  weight_ = std::move(weight);
  bias_ = std::move(bias);
}

Head::Head(TensorRegistry& registry, const std::string& name, const HeadOptions& options) {
  for (int level = 0; level < kLevelCount; ++level) {
    box_towers_.emplace_back(registry, name + ".cv2." + std::to_string(level),
                             Tower::Options{.in = options.in[level],
                                            .hidden = options.box_width,
                                            .out = kBoxChannels,
                                            .groups = kBoxGroups,
                                            .initial_bias = kInitialBoxBias});
  }
  for (int level = 0; level < kLevelCount; ++level) {
    class_towers_.emplace_back(registry, name + ".cv3." + std::to_string(level),
                               Tower::Options{.in = options.in[level],
                                              .hidden = options.class_width,
                                              .out = options.class_count,
                                              .groups = 1,
                                              .initial_bias = kInitialClassBias});
  }
}

LevelTensors Head::Forward(const LevelTensors& features, PassMode mode) const {
  LevelTensors maps;
  for (int level = 0; level < kLevelCount; ++level) {
    maps[level] = Join(box_towers_[level].Forward(features[level], mode),
                       class_towers_[level].Forward(features[level], mode));
  }
  return maps;
}

void Head::ReplaceFinalClass(int level, at::Tensor weight, at::Tensor bias) {
  class_towers_[level].ReplaceFinal(std::move(weight), std::move(bias));
}

void Head::MakeGrid(const LevelTensors& raw_maps) {
  std::array<std::array<int64_t, 2>, kLevelCount> shape;
  for (int level = 0; level < kLevelCount; ++level) {
    shape[level] = {raw_maps[level].size(2), raw_maps[level].size(3)};
  }
  const at::TensorOptions options = raw_maps[0].options().requires_grad(false);
  if (centres_.defined() && shape == grid_shape_ && centres_.device() == options.device() &&
      centres_.scalar_type() == raw_maps[0].scalar_type()) {
    return;
  }
  // Kept beyond this pass, so they must not be bound to the caller's inference mode.
  const c10::InferenceMode normal_tensors(false);
  std::vector<at::Tensor> centres;
  std::vector<at::Tensor> strides;
  for (int level = 0; level < kLevelCount; ++level) {
    const auto [height, width] = shape[level];
    const at::Tensor x = (at::arange(width, options) + 0.5).expand({height, width});
    const at::Tensor y = (at::arange(height, options) + 0.5).unsqueeze(1).expand({height, width});
    centres.push_back(at::stack({x.reshape({-1}), y.reshape({-1})}));
    strides.push_back(at::full({1, height * width}, kStrides[level], options));
  }
  centres_ = at::cat(centres, 1);
  strides_ = at::cat(strides, 1);
  bins_ = at::arange(kRegMax, options).view({1, 1, kRegMax, 1});
  grid_shape_ = shape;
}

at::Tensor Head::Decode(const LevelTensors& raw_maps) {
  MakeGrid(raw_maps);
  const int64_t batch = raw_maps[0].size(0);
  const int64_t channels = raw_maps[0].size(1);
  std::vector<at::Tensor> flat;
  for (const at::Tensor& map : raw_maps) flat.push_back(map.view({batch, channels, -1}));
  const at::Tensor all = at::cat(flat, 2);
  const int64_t anchors = all.size(2);

  const at::Tensor logits = all.narrow(1, 0, kBoxChannels).reshape({batch, 4, kRegMax, anchors});
  // Expected bin per side. A product and a sum, not a matrix product: under autocast the latter
  // would round to half.
  const at::Tensor sides = (at::softmax(logits, 2) * bins_).sum(2);
  const at::Tensor top_left = centres_ - sides.narrow(1, 0, 2);
  const at::Tensor bottom_right = centres_ + sides.narrow(1, 2, 2);
  const at::Tensor boxes = at::cat({top_left, bottom_right}, 1) * strides_;
  const at::Tensor scores = at::sigmoid(all.narrow(1, kBoxChannels, channels - kBoxChannels));
  return at::cat({boxes, scores}, 1);
}

}  // namespace libreyolo::yolo9
