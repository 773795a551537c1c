// The building blocks of YOLO9 (README.md says where each comes from). A block holds handles of its
// tensors, which a TensorRegistry made under the names of the state dict, and computes with plain
// ATen calls. Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "server/worker/yolo9/tensor_registry.h"
#include "server/worker/yolo9/variants.h"

namespace libreyolo::yolo9 {

// What a forward pass depends on beside its input.
struct PassMode {
  bool training = false;  // batch norms use and update batch statistics
};

// Convolution without bias, batch norm, and SiLU unless switched off.
class ConvNorm {
 public:
  struct Options {
    int in;
    int out;
    int kernel = 1;
    int stride = 1;
    int groups = 1;
    bool activate = true;
  };
  ConvNorm(TensorRegistry& registry, const std::string& name, const Options& options);
  at::Tensor Forward(const at::Tensor& x, PassMode mode) const;

 private:
  at::Tensor weight_;
  at::Tensor gamma_;
  at::Tensor beta_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
  at::Tensor step_count_;
  int64_t stride_;
  int64_t padding_;
  int64_t groups_;
  bool activate_;
};

// A 3x3 and a 1x1 branch, summed before the activation.
class RepConv {
 public:
  RepConv(TensorRegistry& registry, const std::string& name, int in, int out);
  at::Tensor Forward(const at::Tensor& x, PassMode mode) const;

 private:
  ConvNorm conv1_;
  ConvNorm conv2_;
};

class RepBottleneck {
 public:
  RepBottleneck(TensorRegistry& registry, const std::string& name, int channels);
  at::Tensor Forward(const at::Tensor& x, PassMode mode) const;

 private:
  RepConv cv1_;
  ConvNorm cv2_;
};

class RepCsp {
 public:
  RepCsp(TensorRegistry& registry, const std::string& name, int channels, int bottleneck_count);
  at::Tensor Forward(const at::Tensor& x, PassMode mode) const;

 private:
  ConvNorm cv1_;
  ConvNorm cv2_;
  ConvNorm cv3_;
  std::vector<RepBottleneck> m_;
};

// An aggregation block: ELAN or RepELAN.
class Aggregation {
 public:
  virtual ~Aggregation() = default;
  virtual at::Tensor Forward(const at::Tensor& x, PassMode mode) const = 0;
};
std::unique_ptr<Aggregation> MakeElan(TensorRegistry& registry, const std::string& name, int in,
                                      ElanChannels channels);
std::unique_ptr<Aggregation> MakeRepElan(TensorRegistry& registry, const std::string& name, int in,
                                         ElanChannels channels, int bottleneck_count);

// A block that halves height and width: AConv or ADown.
class Downsample {
 public:
  virtual ~Downsample() = default;
  virtual at::Tensor Forward(const at::Tensor& x, PassMode mode) const = 0;
};
std::unique_ptr<Downsample> MakeDownsample(TensorRegistry& registry, const std::string& name,
                                           DownKind kind, int in, int out);

// Spatial pyramid pooling: three 5x5 max pools in a row, all results concatenated.
class SppElan {
 public:
  SppElan(TensorRegistry& registry, const std::string& name, int in, int out);
  at::Tensor Forward(const at::Tensor& x, PassMode mode) const;

 private:
  ConvNorm cv1_;
  ConvNorm cv5_;
};

// Concatenates `x`, doubled in height and width by repetition, with `skip`.
at::Tensor UpsampleAndJoin(const at::Tensor& x, const at::Tensor& skip);
// Concatenates along the channels.
at::Tensor Join(const at::Tensor& a, const at::Tensor& b);

}  // namespace libreyolo::yolo9
