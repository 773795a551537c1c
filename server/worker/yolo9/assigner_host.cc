#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "server/worker/yolo9/assigner.h"
#include "server/worker/yolo9/assigner_rules.h"
#include "server/worker/yolo9/box_iou.h"

namespace libreyolo::yolo9 {
namespace {

template <typename T>
struct Metric {
  T iou;
  T alignment;  // iou^6 * sqrt(class probability)
};

// One image's view of the tensors.
template <typename T>
class ImageAssigner {
 public:
  ImageAssigner(const T* boxes, const T* logits, int64_t class_stride, int64_t anchor_stride,
                const AnchorGrid& grid)
      : boxes_(boxes),
        logits_(logits),
        class_stride_(class_stride),
        anchor_stride_(anchor_stride),
        grid_(grid) {}

  struct Match {
    int64_t anchor;
    int64_t target;
    T score;
  };

  // `targets`: rows of class, x1, y1, x2, y2.
  std::vector<Match> Assign(const T* targets, int64_t target_count) {
    std::vector<Pair> pairs;
    for (int64_t t = 0; t < target_count; ++t) {
      if (targets[5 * t] >= 0) Take(targets + 5 * t, t, pairs);
    }
    return Resolve(pairs, target_count);
  }

 private:
  struct Pair {
    int64_t anchor;
    int64_t target;
    Metric<T> metric;
  };

  Metric<T> Measure(const T* target, int64_t anchor) const {
    const T* box = boxes_ + 4 * anchor;
    const Box want = ToBox(target + 1);
    const float iou = std::clamp(CompleteIou(want, ToBox(box)), 0.0f, 1.0f);
    const T logit =
        logits_[static_cast<int64_t>(target[0]) * class_stride_ + anchor * anchor_stride_];
    const T probability = 1 / (1 + std::exp(-logit));
    const T square = static_cast<T>(iou) * static_cast<T>(iou);
    return {static_cast<T>(iou), square * square * square * std::sqrt(probability)};
  }

  static Box ToBox(const T* p) {
    return {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
            static_cast<float>(p[3])};
  }

  // Calls `visit` with each anchor whose centre lies in the target, at most kMaxReach cells from
  // every side.
  template <typename Visit>
  void VisitInside(const T* target, Visit visit) const {
    for (int i = 0; i < kLevelCount; ++i) {
      const AnchorGrid::Level& level = grid_.levels[static_cast<size_t>(i)];
      const T stride = static_cast<T>(kStrides[i]);
      // A cell more on both sides; the exact test follows. Bounded, so that no edge leaves the
      // integers.
      const auto first = [&](T edge) {
        return static_cast<int64_t>(std::floor(std::clamp(edge / stride, T(-4), T(1e6)))) - 1;
      };
      const int64_t x_begin = std::max<int64_t>(first(target[1]), 0);
      const int64_t y_begin = std::max<int64_t>(first(target[2]), 0);
      const int64_t x_end = std::min(first(target[3]) + 3, level.width);
      const int64_t y_end = std::min(first(target[4]) + 3, level.height);
      for (int64_t y = y_begin; y < y_end; ++y) {
        const T cy = (static_cast<T>(y) + T(0.5)) * stride;
        if (!Reaches((cy - target[2]) / stride, (target[4] - cy) / stride)) continue;
        for (int64_t x = x_begin; x < x_end; ++x) {
          const T cx = (static_cast<T>(x) + T(0.5)) * stride;
          if (!Reaches((cx - target[1]) / stride, (target[3] - cx) / stride)) continue;
          visit(level.first + y * level.width + x);
        }
      }
    }
  }

  static bool Reaches(T before, T after) {
    return std::min(before, after) >= 0 && std::max(before, after) <= T(kMaxReach);
  }

  // The best anchors inside the target, or else the single best one anywhere.
  void Take(const T* target, int64_t index, std::vector<Pair>& pairs) {
    candidates_.clear();
    VisitInside(target, [&](int64_t anchor) {
      const Metric<T> metric = Measure(target, anchor);
      if (metric.alignment > 0) candidates_.push_back({anchor, index, metric});
    });
    if (candidates_.empty()) {
      Pair best{-1, index, {0, 0}};
      for (int64_t anchor = 0; anchor < grid_.anchor_count; ++anchor) {
        const Metric<T> metric = Measure(target, anchor);
        if (metric.alignment > best.metric.alignment) best = {anchor, index, metric};
      }
      if (best.anchor >= 0) pairs.push_back(best);
      return;
    }
    const size_t count = std::min<size_t>(candidates_.size(), kAnchorsPerTarget);
    std::partial_sort(
        candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(count), candidates_.end(),
        [](const Pair& a, const Pair& b) { return a.metric.alignment > b.metric.alignment; });
    pairs.insert(pairs.end(), candidates_.begin(),
                 candidates_.begin() + static_cast<ptrdiff_t>(count));
  }

  // One target for each anchor, then the scores: relative to the target's best anchor, scaled by
  // its best overlap.
  std::vector<Match> Resolve(std::vector<Pair>& pairs, int64_t target_count) const {
    std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
      if (a.anchor != b.anchor) return a.anchor < b.anchor;
      if (a.metric.iou != b.metric.iou) return a.metric.iou > b.metric.iou;
      return a.target < b.target;
    });
    pairs.erase(std::unique(pairs.begin(), pairs.end(),
                            [](const Pair& a, const Pair& b) { return a.anchor == b.anchor; }),
                pairs.end());
    std::vector<Metric<T>> best(static_cast<size_t>(target_count), Metric<T>{0, 0});
    for (const Pair& pair : pairs) {
      Metric<T>& of_target = best[static_cast<size_t>(pair.target)];
      of_target.iou = std::max(of_target.iou, pair.metric.iou);
      of_target.alignment = std::max(of_target.alignment, pair.metric.alignment);
    }
    std::vector<Match> matches;
    matches.reserve(pairs.size());
    for (const Pair& pair : pairs) {
      const Metric<T>& of_target = best[static_cast<size_t>(pair.target)];
      matches.push_back(
          {pair.anchor, pair.target,
           pair.metric.alignment / (of_target.alignment + T(kScoreEpsilon)) * of_target.iou});
    }
    return matches;
  }

  const T* boxes_;
  const T* logits_;
  int64_t class_stride_;
  int64_t anchor_stride_;
  const AnchorGrid& grid_;
  std::vector<Pair> candidates_;
};

template <typename T>
Assignment AssignTyped(const AssignmentInput& input, const AnchorGrid& grid) {
  const int64_t batch = input.boxes.size(0);
  const at::Tensor targets = input.targets.to(input.boxes.scalar_type()).contiguous();
  const at::Tensor boxes = input.boxes.contiguous();
  const T* target_data = targets.const_data_ptr<T>();
  const int64_t target_count = targets.size(1);
  std::vector<int64_t> image, anchor, target, class_id;
  std::vector<T> target_boxes, scores;
  for (int64_t b = 0; b < batch; ++b) {
    ImageAssigner<T> assigner(
        boxes.const_data_ptr<T>() + b * 4 * grid.anchor_count,
        input.class_logits.const_data_ptr<T>() + b * input.class_logits.stride(0),
        input.class_logits.stride(1), input.class_logits.stride(2), grid);
    const T* rows = target_data + b * target_count * 5;
    for (int64_t t = 0; t < target_count; ++t) {
      LY_CHECK(rows[5 * t] < static_cast<T>(input.class_logits.size(1))) << "class " << rows[5 * t];
    }
    for (const auto& match : assigner.Assign(rows, target_count)) {
      const T* row = rows + 5 * match.target;
      image.push_back(b);
      anchor.push_back(match.anchor);
      target.push_back(match.target);
      class_id.push_back(static_cast<int64_t>(row[0]));
      target_boxes.insert(target_boxes.end(), row + 1, row + 5);
      scores.push_back(match.score);
    }
  }
  const at::TensorOptions options = boxes.options();
  return {at::tensor(image, at::kLong),
          at::tensor(anchor, at::kLong),
          at::tensor(target, at::kLong),
          at::tensor(class_id, at::kLong),
          at::tensor(target_boxes, options).view({-1, 4}),
          at::tensor(scores, options)};
}

}  // namespace

Assignment AssignOnHost(const AssignmentInput& input, const AnchorGrid& grid) {
  const at::NoGradGuard no_grad;
  return input.boxes.scalar_type() == at::kDouble ? AssignTyped<double>(input, grid)
                                                  : AssignTyped<float>(input, grid);
}

}  // namespace libreyolo::yolo9
