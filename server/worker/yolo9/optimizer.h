// Stochastic gradient descent with Nesterov momentum over a network's parameters, and the moving
// average of its state. Multi-tensor ops throughout, as the reference's optimizer runs on CUDA. One
// thread at a time. May throw c10::Error: callers go through CallTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "server/worker/yolo9/network.h"
#include "server/worker/yolo9/schedule.h"

namespace libreyolo::yolo9 {

class SgdOptimizer {
 public:
  struct Group {
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> momenta;  // undefined until the parameter's first step
    double weight_decay;
  };

  // Three groups: batch norm weights, other weights (the only ones that decay), all biases. Holds
  // the network's handles; build it after everything that replaces tensors (class count, auxiliary
  // branch, device).
  explicit SgdOptimizer(const Network& network);

  // Drops all gradients.
  void ZeroGrad();
  // One update with the gradients at hand; parameters without one are left alone.
  void Step(const StepSettings& settings);

  const std::vector<Group>& groups() const { return groups_; }
  // Of all groups, for the gradient scaler.
  std::vector<at::Tensor> Gradients() const;

 private:
  std::vector<Group> groups_;
};

// The exponential moving average of all floating tensors of the state dict; counters stay as they
// were at the start.
class ModelEma {
 public:
  explicit ModelEma(const Network& network);
  void Update();

  // In the order of Network::tensors().
  const std::vector<at::Tensor>& tensors() const { return all_; }
  int64_t update_count() const { return update_count_; }

 private:
  std::vector<at::Tensor> all_;
  std::vector<at::Tensor> averages_;  // the floating ones of all_
  std::vector<at::Tensor> sources_;   // the network's
  int64_t update_count_ = 0;
};

}  // namespace libreyolo::yolo9
