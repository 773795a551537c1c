#include "server/worker/yolo9/box_iou.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

namespace libreyolo::yolo9 {
namespace {

constexpr float kEpsilon = 1e-7f;
constexpr double kAspectScale = 4 / (M_PI * M_PI);

struct Sides {
  at::Tensor x1, y1, x2, y2, w, h;
};

Sides Split(const at::Tensor& boxes) {
  Sides s;
  s.x1 = boxes.select(-1, 0);
  s.y1 = boxes.select(-1, 1);
  s.x2 = boxes.select(-1, 2);
  s.y2 = boxes.select(-1, 3);
  s.w = s.x2 - s.x1;
  s.h = s.y2 - s.y1;
  return s;
}

}  // namespace

float CompleteIou(const Box& a, const Box& b) {
  const float aw = a.x2 - a.x1, ah = a.y2 - a.y1;
  const float bw = b.x2 - b.x1, bh = b.y2 - b.y1;
  const float overlap_w = std::max(std::min(a.x2, b.x2) - std::max(a.x1, b.x1), 0.0f);
  const float overlap_h = std::max(std::min(a.y2, b.y2) - std::max(a.y1, b.y1), 0.0f);
  const float overlap = overlap_w * overlap_h;
  const float iou = overlap / (aw * ah + bw * bh - overlap + kEpsilon);
  const float dx = (a.x1 + a.x2) / 2 - (b.x1 + b.x2) / 2;
  const float dy = (a.y1 + a.y2) / 2 - (b.y1 + b.y2) / 2;
  const float outer_w = std::max(a.x2, b.x2) - std::min(a.x1, b.x1);
  const float outer_h = std::max(a.y2, b.y2) - std::min(a.y1, b.y1);
  const float diagonal = outer_w * outer_w + outer_h * outer_h + kEpsilon;
  const float angle = std::atan(aw / (ah + kEpsilon)) - std::atan(bw / (bh + kEpsilon));
  const float v = static_cast<float>(kAspectScale) * (angle * angle);
  const float alpha = v / (v - iou + 1 + kEpsilon);
  return iou - (dx * dx + dy * dy) / diagonal - alpha * v;
}

at::Tensor CompleteIou(const at::Tensor& a, const at::Tensor& b) {
  const Sides s = Split(a.to(at::kFloat));
  const Sides t = Split(b.to(at::kFloat));
  const at::Tensor overlap = at::clamp_min(at::minimum(s.x2, t.x2) - at::maximum(s.x1, t.x1), 0) *
                             at::clamp_min(at::minimum(s.y2, t.y2) - at::maximum(s.y1, t.y1), 0);
  const at::Tensor iou = overlap / (s.w * s.h + t.w * t.h - overlap + kEpsilon);
  const at::Tensor dx = (s.x1 + s.x2 - t.x1 - t.x2) * 0.5;
  const at::Tensor dy = (s.y1 + s.y2 - t.y1 - t.y2) * 0.5;
  const at::Tensor outer_w = at::maximum(s.x2, t.x2) - at::minimum(s.x1, t.x1);
  const at::Tensor outer_h = at::maximum(s.y2, t.y2) - at::minimum(s.y1, t.y1);
  const at::Tensor diagonal = outer_w * outer_w + outer_h * outer_h + kEpsilon;
  const at::Tensor angle = at::atan(s.w / (s.h + kEpsilon)) - at::atan(t.w / (t.h + kEpsilon));
  const at::Tensor v = angle * angle * kAspectScale;
  at::Tensor alpha;
  {
    const at::NoGradGuard no_grad;
    alpha = v / (v - iou + (1 + kEpsilon));
  }
  return (iou - (dx * dx + dy * dy) / diagonal - alpha * v).to(a.scalar_type());
}

}  // namespace libreyolo::yolo9
