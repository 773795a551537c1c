// Makes the tensors of a network under construction, in the order of its state dict. Private to
// this folder.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/worker/yolo9/network.h"

namespace libreyolo::yolo9 {

class TensorRegistry {
 public:
  explicit TensorRegistry(uint64_t seed);

  // A convolution's weight (out, in / groups, kernel, kernel): uniform within 1 / sqrt(fan in).
  at::Tensor ConvWeight(const std::string& name, int in, int out, int kernel, int groups);
  // A trainable vector, and a buffer, filled with one value.
  at::Tensor Vector(const std::string& name, int length, double value);
  at::Tensor Buffer(const std::string& name, int length, double value);
  // The int64 scalar 0 that counts a batch norm's training steps.
  at::Tensor Counter(const std::string& name);

  std::vector<NamedTensor> Take() { return std::move(tensors_); }

 private:
  at::Tensor Add(const std::string& name, at::Tensor tensor, bool is_parameter);

  at::Generator generator_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace libreyolo::yolo9
