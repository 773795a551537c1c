#include "server/worker/yolo9/tensor_registry.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <utility>

namespace libreyolo::yolo9 {

TensorRegistry::TensorRegistry(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

at::Tensor TensorRegistry::Add(const std::string& name, at::Tensor tensor, bool is_parameter) {
  if (is_parameter) tensor.set_requires_grad(true);
  tensors_.push_back({name, tensor, is_parameter});
  return tensor;
}

at::Tensor TensorRegistry::ConvWeight(const std::string& name, int in, int out, int kernel,
                                      int groups) {
  const c10::InferenceMode normal_tensors(false);
  at::Tensor weight = at::empty({out, in / groups, kernel, kernel}, at::kFloat);
  const double bound = 1.0 / std::sqrt(static_cast<double>(in / groups) * kernel * kernel);
  weight.uniform_(-bound, bound, generator_);
  return Add(name, std::move(weight), /*is_parameter=*/true);
}

at::Tensor TensorRegistry::Vector(const std::string& name, int length, double value) {
  const c10::InferenceMode normal_tensors(false);
  return Add(name, at::full({length}, value, at::kFloat), /*is_parameter=*/true);
}

at::Tensor TensorRegistry::Buffer(const std::string& name, int length, double value) {
  const c10::InferenceMode normal_tensors(false);
  return Add(name, at::full({length}, value, at::kFloat), /*is_parameter=*/false);
}

at::Tensor TensorRegistry::Counter(const std::string& name) {
  const c10::InferenceMode normal_tensors(false);
  return Add(name, at::zeros({}, at::kLong), /*is_parameter=*/false);
}

}  // namespace libreyolo::yolo9
