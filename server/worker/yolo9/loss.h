// The training loss of one detection head: assignment, then class, box (CIoU) and box distribution
// (DFL) terms. One object per head; one thread at a time. May throw c10::Error: callers go through
// CallTorch.
//
//   DetectionLoss loss(class_count);
//   LossTerms terms = Combine(loss.Compute(main_maps, targets), aux_loss.Compute(aux_maps,
//   targets)); terms.total.backward();
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "server/worker/yolo9/assigner.h"
#include "server/worker/yolo9/network.h"

namespace libreyolo::yolo9 {

inline constexpr double kAuxLossWeight = 0.25;

// Each term already has its weight in the total. 0-dim tensors with gradients.
struct LossTerms {
  at::Tensor total;
  at::Tensor box;
  at::Tensor dfl;
  at::Tensor cls;
  double foreground_per_image = 0;  // matched anchors
};

// main + weight * aux, term by term; the foreground count is the main head's.
LossTerms Combine(const LossTerms& main, const LossTerms& aux, double aux_weight = kAuxLossWeight);

class DetectionLoss {
 public:
  // How to assign: as the device suggests, or by the ops of other devices also on the host, which
  // tests do.
  enum class AssignmentPath { kByDevice, kOps };
  explicit DetectionLoss(int class_count, AssignmentPath path = AssignmentPath::kByDevice)
      : class_count_(class_count), path_(path) {}

  // `raw_maps`: of Network::ForwardTrain or ForwardAux. `targets`: (B, N, 5) on the maps' device,
  // rows of class and x1, y1, x2, y2 as parts of the input's width and height; rows with a class
  // below 0 are padding. Time and memory grow with N: a caller that knows how many rows are used
  // cuts the rest off.
  //
  // Without a matched anchor box and DFL are 0 with zero gradients.
  LossTerms Compute(const LevelTensors& raw_maps, const at::Tensor& targets);

  // What the last Compute assigned, for tests.
  const Assignment& last_assignment() const { return assignment_; }

 private:
  void MakeGrid(const LevelTensors& raw_maps);

  const int class_count_;
  const AssignmentPath path_;
  AnchorGrid grid_;
  Assignment assignment_;
};

}  // namespace libreyolo::yolo9
