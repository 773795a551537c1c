#include "server/worker/yolo9/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <vector>

#include "common/base/check.h"
#include "server/worker/yolo9/assigner_rules.h"
#include "server/worker/yolo9/box_iou.h"

namespace libreyolo::yolo9 {
namespace {

constexpr double kBoxWeight = 7.5;
constexpr double kDflWeight = 1.5;
constexpr double kClassWeight = 0.5;
// Above this softplus(x) is taken as x; exp(40) is still far from the end of float32.
constexpr double kSoftplusLinear = 40;

at::Tensor BinValues(const at::Tensor& like) {
  return at::arange(kRegMax, like.options().requires_grad(false));
}

// (B, A, 4) pixels from all maps (B, 64 + class_count, A), without gradients.
at::Tensor DecodeAll(const at::Tensor& maps, const AnchorGrid& grid) {
  const at::NoGradGuard no_grad;
  const int64_t batch = maps.size(0);
  const at::Tensor logits = maps.detach()
                                .narrow(1, 0, kBoxChannels)
                                .to(grid.centres.scalar_type())
                                .reshape({batch, 4, kRegMax, grid.anchor_count});
  at::Tensor sides = at::softmax(logits, 2);
  sides = sides.mul_(BinValues(sides).view({1, 1, kRegMax, 1})).sum(2).transpose(1, 2);
  sides = sides * grid.strides;
  return at::cat({grid.centres - sides.narrow(2, 0, 2), grid.centres + sides.narrow(2, 2, 2)}, 2);
}

// What the matched anchors are compared with, in cells of their level.
struct MatchedGeometry {
  at::Tensor centres;  // (M, 2)
  at::Tensor boxes;    // (M, 4)
};

MatchedGeometry InCells(const Assignment& assignment, const AnchorGrid& grid) {
  const at::NoGradGuard no_grad;
  const at::Tensor strides = grid.strides.index_select(0, assignment.anchor);
  const at::Tensor centres = grid.centres.index_select(0, assignment.anchor);
  return {centres / strides, assignment.target_boxes / strides};
}

// (M) cross entropy of the target's distance between its two neighbouring bins, mean over the
// sides.
at::Tensor DistributionLoss(const at::Tensor& logits, const MatchedGeometry& cells) {
  at::Tensor lower, upper_part;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor distance = at::cat({cells.centres - cells.boxes.narrow(1, 0, 2),
                                         cells.boxes.narrow(1, 2, 2) - cells.centres},
                                        1)
                                    .clamp_(0, kMaxReach);
    lower = distance.to(at::kLong);
    upper_part = distance - lower;
  }
  const at::Tensor log_share = at::log_softmax(logits, 2);
  const at::Tensor at_lower = log_share.gather(2, lower.unsqueeze(2)).squeeze(2);
  const at::Tensor at_upper = log_share.gather(2, lower.unsqueeze(2) + 1).squeeze(2);
  return (at_lower * (upper_part - 1) - at_upper * upper_part).mean(1);
}

// (M, 4) boxes in cells from the matched anchors' logits (M, 4, 16).
at::Tensor DecodeMatched(const at::Tensor& logits, const MatchedGeometry& cells) {
  const at::Tensor shares = at::softmax(logits, 2);
  const at::Tensor sides = (shares * BinValues(shares)).sum(2);
  return at::cat({cells.centres - sides.narrow(1, 0, 2), cells.centres + sides.narrow(1, 2, 2)}, 1);
}

}  // namespace

LossTerms Combine(const LossTerms& main, const LossTerms& aux, double aux_weight) {
  LossTerms terms;
  terms.total = main.total + aux.total * aux_weight;
  terms.box = main.box + aux.box * aux_weight;
  terms.dfl = main.dfl + aux.dfl * aux_weight;
  terms.cls = main.cls + aux.cls * aux_weight;
  terms.foreground_per_image = main.foreground_per_image;
  return terms;
}

void DetectionLoss::MakeGrid(const LevelTensors& raw_maps) {
  const at::Device device = raw_maps[0].device();
  const at::ScalarType dtype = raw_maps[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  bool is_current = grid_.centres.defined() && grid_.centres.device() == device &&
                    grid_.centres.scalar_type() == dtype;
  for (size_t i = 0; i < kLevelCount; ++i) {
    is_current = is_current && grid_.levels[i].height == raw_maps[i].size(2) &&
                 grid_.levels[i].width == raw_maps[i].size(3);
  }
  if (is_current) return;
  const c10::InferenceMode normal_tensors(false);
  const at::TensorOptions options = at::TensorOptions(dtype).device(device);
  std::vector<at::Tensor> centres, strides;
  grid_.anchor_count = 0;
  for (size_t i = 0; i < kLevelCount; ++i) {
    const int64_t height = raw_maps[i].size(2), width = raw_maps[i].size(3);
    const double stride = kStrides[i];
    grid_.levels[i] = {height, width, grid_.anchor_count};
    grid_.anchor_count += height * width;
    const at::Tensor x = (at::arange(width, options) + 0.5) * stride;
    const at::Tensor y = (at::arange(height, options) + 0.5) * stride;
    centres.push_back(at::stack({x.expand({height, width}).reshape({-1}),
                                 y.unsqueeze(1).expand({height, width}).reshape({-1})},
                                1));
    strides.push_back(at::full({height * width, 1}, stride, options));
  }
  grid_.centres = at::cat(centres);
  grid_.strides = at::cat(strides);
}

LossTerms DetectionLoss::Compute(const LevelTensors& raw_maps, const at::Tensor& targets) {
  MakeGrid(raw_maps);
  const int64_t batch = raw_maps[0].size(0);
  LY_CHECK(raw_maps[0].size(1) == kBoxChannels + class_count_) << raw_maps[0].size(1);
  std::vector<at::Tensor> flat;
  for (const at::Tensor& map : raw_maps) flat.push_back(map.flatten(2));
  const at::Tensor maps = at::cat(flat, 2);
  // Under autocast the maps are half; everything below is float32 (or float64 in tests) whatever
  // autocast's lists say.
  const at::ScalarType dtype = grid_.centres.scalar_type();
  const at::Tensor class_logits = maps.narrow(1, kBoxChannels, class_count_).to(dtype);

  AssignmentInput input;
  input.boxes = DecodeAll(maps, grid_);
  input.class_logits = class_logits.detach();
  {
    const at::NoGradGuard no_grad;
    const double width = static_cast<double>(raw_maps[0].size(3) * kStrides[0]);
    const double height = static_cast<double>(raw_maps[0].size(2) * kStrides[0]);
    const at::Tensor scale =
        at::tensor({1.0, width, height, width, height}, at::kDouble).to(input.boxes.options());
    input.targets = targets.to(dtype) * scale;
  }
  const bool on_host = maps.device().is_cpu() && path_ == AssignmentPath::kByDevice;
  assignment_ = on_host ? AssignOnHost(input, grid_) : AssignByOps(input, grid_);
  const at::Tensor& scores = assignment_.scores;
  const at::Tensor normaliser = scores.sum().clamp_min_(1);

  // (M, 64 + class_count): the maps at the matched anchors, the only place where box and
  // distribution count.
  c10::List<std::optional<at::Tensor>> where;
  where.push_back(assignment_.image);
  where.push_back(std::nullopt);
  where.push_back(assignment_.anchor);
  const at::Tensor matched = at::index(maps, where).to(dtype);
  const at::Tensor logits = matched.narrow(1, 0, kBoxChannels).reshape({-1, 4, kRegMax});
  const MatchedGeometry cells = InCells(assignment_, grid_);

  LossTerms terms;
  // Binary cross entropy with logits against scores that are 0 nearly everywhere: softplus(x) - x *
  // score, so that the dense matrix of target scores (batch, anchors, classes) is not needed.
  const at::Tensor hit_logits =
      matched.gather(1, assignment_.class_id.unsqueeze(1) + kBoxChannels).squeeze(1);
  terms.cls = (at::softplus(class_logits, 1, kSoftplusLinear).sum() - (hit_logits * scores).sum()) *
              kClassWeight / normaliser;
  const at::Tensor overlap = CompleteIou(DecodeMatched(logits, cells), cells.boxes);
  terms.box = ((1 - overlap) * scores).sum() * kBoxWeight / normaliser;
  terms.dfl = (DistributionLoss(logits, cells) * scores).sum() * kDflWeight / normaliser;
  terms.total = terms.box + terms.dfl + terms.cls;
  terms.foreground_per_image =
      static_cast<double>(assignment_.anchor.size(0)) / static_cast<double>(batch);
  return terms;
}

}  // namespace libreyolo::yolo9
