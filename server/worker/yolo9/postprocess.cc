#include "server/worker/yolo9/postprocess.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/topk.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace libreyolo::yolo9 {
namespace {

constexpr int64_t kMaxCandidates = 30000;
// torchvision suppresses class by class on the boxes as they are when there are more than this, and
// otherwise all at once on boxes moved apart by class. The rounding differs, so the choice is part
// of the result.
constexpr size_t kMaxMovedBoxesCpu = 1000;
constexpr size_t kMaxMovedBoxesDevice = 25000;

struct Candidate {
  int64_t anchor;
  int class_id;
  float score;
  float x1, y1, x2, y2;
};

// Descending score; equal scores stay in anchor-major order.
bool Before(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.anchor != b.anchor) return a.anchor < b.anchor;
  return a.class_id < b.class_id;
}

void KeepBest(std::vector<Candidate>& candidates, const PostprocessOptions& options) {
  const size_t limit = static_cast<size_t>(std::max<int64_t>(options.max_det, kMaxCandidates));
  if (candidates.size() <= limit) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(limit),
                   candidates.end(), Before);
  candidates.resize(limit);
}

// Maps boxes to the original picture, and drops those that are empty there or not finite.
void MapToOriginal(std::vector<Candidate>& candidates, const LetterboxGeometry& g) {
  const double ratio = std::min(static_cast<double>(g.input_height) / g.original_height,
                                static_cast<double>(g.input_width) / g.original_width);
  int pad_left = 0;
  int pad_top = 0;
  if (g.pad == LetterboxPad::kCenter) {
    pad_left = (g.input_width - std::max(static_cast<int>(g.original_width * ratio), 1)) / 2;
    pad_top = (g.input_height - std::max(static_cast<int>(g.original_height * ratio), 1)) / 2;
  }
  // In float32, as the reference computes.
  const float r = static_cast<float>(ratio);
  const float width = static_cast<float>(g.original_width);
  const float height = static_cast<float>(g.original_height);
  // Infinities clamp to the edge, NaN passes through and fails every comparison below.
  const auto map = [r](float value, int pad, float limit) {
    const float mapped = (value - static_cast<float>(pad)) / r;
    return mapped < 0 ? 0.0f : mapped > limit ? limit : mapped;
  };
  size_t kept = 0;
  for (Candidate& c : candidates) {
    c.x1 = map(c.x1, pad_left, width);
    c.y1 = map(c.y1, pad_top, height);
    c.x2 = map(c.x2, pad_left, width);
    c.y2 = map(c.y2, pad_top, height);
    if (c.x2 - c.x1 > 0 && c.y2 - c.y1 > 0 && std::isfinite(c.score)) candidates[kept++] = c;
  }
  candidates.resize(kept);
}

// A box that suppression compares with: moved by its class or not.
struct Comparable {
  float x1, y1, x2, y2, area;
};

bool Overlaps(const Comparable& a, const Comparable& b, double iou) {
  const float w = std::max(0.0f, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const float h = std::max(0.0f, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const float intersection = w * h;
  return intersection / (a.area + b.area - intersection) > iou;
}

// Greedy suppression within each class, best score first, until max_det are kept: whatever comes
// later has a lower score than all of those.
std::vector<Detection> Suppress(std::vector<Candidate> candidates,
                                const PostprocessOptions& options, size_t max_moved_boxes) {
  std::sort(candidates.begin(), candidates.end(), Before);
  float class_distance = 0;
  if (candidates.size() <= max_moved_boxes) {
    for (const Candidate& c : candidates) {
      class_distance = std::max({class_distance, c.x1, c.y1, c.x2, c.y2});
    }
    class_distance += 1;
  }
  std::vector<std::vector<Comparable>> kept_of_class;
  std::vector<Detection> detections;
  for (const Candidate& c : candidates) {
    if (static_cast<int>(detections.size()) >= options.max_det) break;
    const float offset = static_cast<float>(c.class_id) * class_distance;
    Comparable box{c.x1 + offset, c.y1 + offset, c.x2 + offset, c.y2 + offset, 0};
    box.area = (box.x2 - box.x1) * (box.y2 - box.y1);
    if (static_cast<size_t>(c.class_id) >= kept_of_class.size()) {
      kept_of_class.resize(static_cast<size_t>(c.class_id) + 1);
    }
    std::vector<Comparable>& kept = kept_of_class[static_cast<size_t>(c.class_id)];
    const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](const Comparable& better) {
      return Overlaps(better, box, options.iou);
    });
    if (suppressed) continue;
    kept.push_back(box);
    detections.push_back({c.class_id, c.score, c.x1, c.y1, c.x2, c.y2});
  }
  return detections;
}

// One pass over the scores in memory order. Most blocks hold no candidate, and that test is a
// vector instruction.
std::vector<Candidate> SelectOnHost(const at::Tensor& predictions, float conf) {
  constexpr int64_t kBlock = 32;
  const int64_t anchors = predictions.size(1);
  const int64_t class_count = predictions.size(0) - 4;
  const float* data = predictions.const_data_ptr<float>();
  std::vector<Candidate> candidates;
  const auto scan = [&](const float* row, int64_t begin, int64_t end, int class_id) {
    for (int64_t a = begin; a < end; ++a) {
      if (row[a] > conf) {
        candidates.push_back({a, class_id, row[a], data[a], data[anchors + a],
                              data[2 * anchors + a], data[3 * anchors + a]});
      }
    }
  };
  for (int64_t c = 0; c < class_count; ++c) {
    const float* row = data + (4 + c) * anchors;
    int64_t a = 0;
    for (; a + kBlock <= anchors; a += kBlock) {
      int hits = 0;
      for (int64_t i = 0; i < kBlock; ++i) hits |= row[a + i] > conf ? 1 : 0;
      if (hits != 0) scan(row, a, a + kBlock, static_cast<int>(c));
    }
    scan(row, a, anchors, static_cast<int>(c));
  }
  return candidates;
}

// The same where the tensor lives; one copy to the host.
std::vector<Candidate> SelectOnDevice(const at::Tensor& predictions, float conf, int64_t limit) {
  const int64_t class_count = predictions.size(0) - 4;
  const at::Tensor rows = predictions.t();  // (A, 4 + class_count): anchor-major order
  const at::Tensor scores = rows.narrow(1, 4, class_count).reshape({-1});
  at::Tensor at = at::nonzero(scores.gt(conf)).squeeze(1);
  if (at.size(0) > limit) {
    at = at.index_select(0, std::get<1>(at::topk(scores.index_select(0, at), limit)));
  }
  const at::Tensor anchor = at.div(class_count, "floor");
  const at::Tensor boxes = rows.narrow(1, 0, 4).index_select(0, anchor);
  const at::Tensor values =
      at::cat({boxes, scores.index_select(0, at).unsqueeze(1)}, 1).to(at::kCPU).contiguous();
  const at::Tensor indices = at.to(at::kCPU);
  const float* v = values.const_data_ptr<float>();
  const int64_t* index = indices.const_data_ptr<int64_t>();
  std::vector<Candidate> candidates;
  candidates.reserve(static_cast<size_t>(indices.size(0)));
  for (int64_t i = 0; i < indices.size(0); ++i, v += 5) {
    candidates.push_back({index[i] / class_count, static_cast<int>(index[i] % class_count), v[4],
                          v[0], v[1], v[2], v[3]});
  }
  return candidates;
}

std::vector<Detection> Finish(std::vector<Candidate> candidates, const LetterboxGeometry& geometry,
                              const PostprocessOptions& options, size_t max_moved_boxes) {
  KeepBest(candidates, options);
  MapToOriginal(candidates, geometry);
  return Suppress(std::move(candidates), options, max_moved_boxes);
}

}  // namespace

namespace internal {

std::vector<Detection> PostprocessByOps(const at::Tensor& predictions,
                                        const LetterboxGeometry& geometry,
                                        const PostprocessOptions& options) {
  const c10::InferenceMode guard;
  const int64_t limit = std::max<int64_t>(options.max_det, kMaxCandidates);
  const size_t max_moved_boxes =
      predictions.device().is_cpu() ? kMaxMovedBoxesCpu : kMaxMovedBoxesDevice;
  return Finish(SelectOnDevice(predictions.to(at::kFloat), static_cast<float>(options.conf), limit),
                geometry, options, max_moved_boxes);
}

}  // namespace internal

std::vector<Detection> Postprocess(const at::Tensor& predictions, const LetterboxGeometry& geometry,
                                   const PostprocessOptions& options) {
  if (!predictions.device().is_cpu()) {
    return internal::PostprocessByOps(predictions, geometry, options);
  }
  const c10::InferenceMode guard;
  const at::Tensor values = predictions.to(at::kFloat).contiguous();
  return Finish(SelectOnHost(values, static_cast<float>(options.conf)), geometry, options,
                kMaxMovedBoxesCpu);
}

}  // namespace libreyolo::yolo9
