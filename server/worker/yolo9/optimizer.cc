#include "server/worker/yolo9/optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <c10/core/GradMode.h>

#include "absl/strings/match.h"

namespace libreyolo::yolo9 {
namespace {

constexpr double kWeightDecay = 5e-4;

// 0: batch norm weights, 1: other weights, 2: biases.
size_t GroupOf(const std::string& name) {
  if (absl::EndsWith(name, ".bias")) return 2;
  return absl::EndsWith(name, ".bn.weight") ? 0 : 1;
}

void StepGroup(SgdOptimizer::Group& group, const StepSettings& settings) {
  std::vector<at::Tensor> parameters, gradients, momenta;  // with a momentum
  std::vector<at::Tensor> new_parameters, new_gradients;   // in their first step
  std::vector<size_t> new_at;
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const at::Tensor& gradient = group.parameters[i].grad();
    if (!gradient.defined()) continue;
    if (group.momenta[i].defined()) {
      parameters.push_back(group.parameters[i]);
      gradients.push_back(gradient);
      momenta.push_back(group.momenta[i]);
    } else {
      new_parameters.push_back(group.parameters[i]);
      new_gradients.push_back(gradient);
      new_at.push_back(i);
    }
  }
  const auto decayed = [&](const std::vector<at::Tensor>& g, const std::vector<at::Tensor>& p) {
    return group.weight_decay == 0 ? g : at::_foreach_add(g, p, group.weight_decay);
  };
  if (!parameters.empty()) {
    const std::vector<at::Tensor> g = decayed(gradients, parameters);
    at::_foreach_mul_(momenta, settings.momentum);
    at::_foreach_add_(momenta, g, 1);
    at::_foreach_add_(parameters, at::_foreach_add(g, momenta, settings.momentum),
                      -settings.learning_rate);
  }
  if (!new_parameters.empty()) {
    const std::vector<at::Tensor> g = decayed(new_gradients, new_parameters);
    for (size_t i = 0; i < g.size(); ++i) group.momenta[new_at[i]] = g[i].detach().clone();
    at::_foreach_add_(new_parameters, at::_foreach_mul(g, 1 + settings.momentum),
                      -settings.learning_rate);
  }
}

}  // namespace

SgdOptimizer::SgdOptimizer(const Network& network) : groups_(3) {
  groups_[1].weight_decay = kWeightDecay;
  groups_[0].weight_decay = groups_[2].weight_decay = 0;
  for (const NamedTensor& entry : network.tensors()) {
    if (!entry.is_parameter) continue;
    Group& group = groups_[GroupOf(entry.name)];
    group.parameters.push_back(entry.tensor);
    group.momenta.emplace_back();
  }
}

void SgdOptimizer::ZeroGrad() {
  for (Group& group : groups_) {
    for (at::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

void SgdOptimizer::Step(const StepSettings& settings) {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) StepGroup(group, settings);
}

std::vector<at::Tensor> SgdOptimizer::Gradients() const {
  std::vector<at::Tensor> gradients;
  for (const Group& group : groups_) {
    for (const at::Tensor& parameter : group.parameters) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  return gradients;
}

ModelEma::ModelEma(const Network& network) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& entry : network.tensors()) {
    all_.push_back(entry.tensor.detach().clone());
    if (!entry.tensor.is_floating_point()) continue;
    averages_.push_back(all_.back());
    sources_.push_back(entry.tensor.detach());
  }
}

void ModelEma::Update() {
  const at::NoGradGuard no_grad;
  const double decay = EmaDecay(++update_count_);
  at::_foreach_mul_(averages_, decay);
  at::_foreach_add_(averages_, sources_, 1 - decay);
}

}  // namespace libreyolo::yolo9
