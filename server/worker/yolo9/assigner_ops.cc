#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "server/worker/yolo9/assigner.h"
#include "server/worker/yolo9/assigner_rules.h"
#include "server/worker/yolo9/box_iou.h"

namespace libreyolo::yolo9 {
namespace {

// Elements of one (images, targets, anchors) matrix: 32 MiB as float32.
constexpr int64_t kMaxMatrixElements = int64_t{8} << 20;

at::Tensor Pick(const at::Tensor& from, std::initializer_list<at::Tensor> indices) {
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& index : indices) list.push_back(index);
  return at::index(from, list);
}

// (b, n, A): true where the anchor's centre is inside the target and near enough to all of its
// sides.
at::Tensor Inside(const at::Tensor& target_boxes, const AnchorGrid& grid) {
  const at::Tensor centres = grid.centres.to(target_boxes.scalar_type());
  const at::Tensor strides = grid.strides.to(target_boxes.scalar_type()).squeeze(1);
  const at::Tensor x = centres.select(1, 0);
  const at::Tensor y = centres.select(1, 1);
  const auto edge = [&](int64_t i) { return target_boxes.select(2, i).unsqueeze(2); };
  at::Tensor inside;
  for (const at::Tensor& distance : {(x - edge(0)) / strides, (y - edge(1)) / strides,
                                     (edge(2) - x) / strides, (edge(3) - y) / strides}) {
    const at::Tensor fits = distance.ge(0).logical_and_(distance.le(kMaxReach));
    inside = inside.defined() ? inside.logical_and_(fits) : fits;
  }
  return inside;
}

// The images [first, first + count) of the batch; `image` in the result counts from `first`.
Assignment AssignSome(const AssignmentInput& input, const AnchorGrid& grid, int64_t first,
                      int64_t count) {
  const at::Tensor boxes = input.boxes.narrow(0, first, count);
  const at::Tensor logits = input.class_logits.narrow(0, first, count);
  const at::Tensor targets = input.targets.narrow(0, first, count).to(boxes.scalar_type());
  const at::Tensor classes = targets.select(2, 0).clamp_min(0).to(at::kLong);
  const at::Tensor target_boxes = targets.narrow(2, 1, 4);
  const int64_t anchors = grid.anchor_count;

  const at::Tensor iou = CompleteIou(target_boxes.unsqueeze(2), boxes.unsqueeze(1)).clamp_(0, 1);
  const at::Tensor index = classes.unsqueeze(2).expand({count, classes.size(1), anchors});
  at::Tensor alignment = at::sigmoid(at::gather(logits, 1, index)).to(iou.scalar_type()).sqrt_();
  alignment.mul_(iou.pow(6)).mul_(targets.select(2, 0).ge(0).unsqueeze(2));

  const auto [best, best_at] = at::topk(alignment * Inside(target_boxes, grid),
                                        std::min<int64_t>(kAnchorsPerTarget, anchors));
  at::Tensor matched = at::zeros_like(alignment, at::kBool).scatter_(2, best_at, best.gt(0));
  const auto [fallback, fallback_at] = alignment.max(2, /*keepdim=*/true);
  const at::Tensor alone = matched.any(2, /*keepdim=*/true).logical_not_();
  matched.scatter_(2, fallback_at,
                   matched.gather(2, fallback_at).logical_or_(alone.logical_and(fallback.gt(0))));

  // An anchor that several targets want goes to the one it overlaps most.
  const at::Tensor owner = at::where(matched, iou, -1).argmax(1, /*keepdim=*/true);
  matched.logical_and_(at::zeros_like(matched).scatter_(1, owner, true));
  const at::Tensor top_alignment = (alignment * matched).amax(2);
  const at::Tensor top_iou = (iou * matched).amax(2);

  const at::Tensor at = at::nonzero(matched.any(1));  // the one wait for the device
  Assignment result;
  result.image = at.select(1, 0);
  result.anchor = at.select(1, 1);
  result.target = Pick(owner.squeeze(1), {result.image, result.anchor});
  result.class_id = Pick(classes, {result.image, result.target});
  result.target_boxes = Pick(target_boxes, {result.image, result.target});
  result.scores = Pick(alignment, {result.image, result.target, result.anchor}) /
                  (Pick(top_alignment, {result.image, result.target}) + kScoreEpsilon) *
                  Pick(top_iou, {result.image, result.target});
  return result;
}

}  // namespace

Assignment AssignByOps(const AssignmentInput& input, const AnchorGrid& grid) {
  const at::NoGradGuard no_grad;
  const int64_t batch = input.boxes.size(0);
  const int64_t per_image = std::max<int64_t>(input.targets.size(1) * grid.anchor_count, 1);
  const int64_t step = std::clamp<int64_t>(kMaxMatrixElements / per_image, 1, batch);
  std::vector<Assignment> parts;
  // No rows of targets at all: one padding row keeps every reduction below defined.
  AssignmentInput padded = input;
  if (input.targets.size(1) == 0) padded.targets = input.targets.new_full({batch, 1, 5}, -1);
  for (int64_t first = 0; first < batch; first += step) {
    parts.push_back(AssignSome(padded, grid, first, std::min(step, batch - first)));
    parts.back().image = parts.back().image + first;
  }
  if (parts.size() == 1) return parts[0];
  const auto join = [&](at::Tensor Assignment::*member) {
    std::vector<at::Tensor> pieces;
    for (const Assignment& part : parts) pieces.push_back(part.*member);
    return at::cat(pieces);
  };
  return {join(&Assignment::image),    join(&Assignment::anchor),       join(&Assignment::target),
          join(&Assignment::class_id), join(&Assignment::target_boxes), join(&Assignment::scores)};
}

}  // namespace libreyolo::yolo9
