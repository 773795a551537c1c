#include "server/worker/yolo9/blocks.h"

#include <ATen/ops/add.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <c10/util/irange.h>

namespace libreyolo::yolo9 {
namespace {

constexpr double kNormEpsilon = 1e-3;
constexpr double kNormMomentum = 0.03;

at::Tensor SmoothingPool(const at::Tensor& x) {
  return at::avg_pool2d(x, {2, 2}, {1, 1}, {0, 0}, /*ceil_mode=*/false, /*count_include_pad=*/true);
}

// The second half of the channels, as a view.
at::Tensor UpperHalf(const at::Tensor& x) {
  const int64_t half = x.size(1) / 2;
  return x.narrow(1, half, half);
}

class Elan : public Aggregation {
 public:
  Elan(TensorRegistry& registry, const std::string& name, int in, ElanChannels channels)
      : cv1_(registry, name + ".cv1", {.in = in, .out = channels.part}),
        cv2_(registry, name + ".cv2",
             {.in = channels.part / 2, .out = channels.part / 2, .kernel = 3}),
        cv3_(registry, name + ".cv3",
             {.in = channels.part / 2, .out = channels.part / 2, .kernel = 3}),
        cv4_(registry, name + ".cv4", {.in = 2 * channels.part, .out = channels.out}) {}

  at::Tensor Forward(const at::Tensor& x, PassMode mode) const override {
    // Both halves of the split end up side by side in the concatenation, so the whole goes in as
    // one piece.
    const at::Tensor whole = cv1_.Forward(x, mode);
    const at::Tensor y1 = cv2_.Forward(UpperHalf(whole), mode);
    const at::Tensor y2 = cv3_.Forward(y1, mode);
    return cv4_.Forward(at::cat({whole, y1, y2}, 1), mode);
  }

 private:
  ConvNorm cv1_;
  ConvNorm cv2_;
  ConvNorm cv3_;
  ConvNorm cv4_;
};

class RepElan : public Aggregation {
 public:
  RepElan(TensorRegistry& registry, const std::string& name, int in, ElanChannels channels,
          int bottleneck_count)
      : cv1_(registry, name + ".cv1", {.in = in, .out = channels.part}),
        cv2_csp_(registry, name + ".cv2.0", channels.part / 2, bottleneck_count),
        cv2_conv_(registry, name + ".cv2.1",
                  {.in = channels.part / 2, .out = channels.part / 2, .kernel = 3}),
        cv3_csp_(registry, name + ".cv3.0", channels.part / 2, bottleneck_count),
        cv3_conv_(registry, name + ".cv3.1",
                  {.in = channels.part / 2, .out = channels.part / 2, .kernel = 3}),
        cv4_(registry, name + ".cv4", {.in = 2 * channels.part, .out = channels.out}) {}

  at::Tensor Forward(const at::Tensor& x, PassMode mode) const override {
    const at::Tensor whole = cv1_.Forward(x, mode);
    const at::Tensor y1 = cv2_conv_.Forward(cv2_csp_.Forward(UpperHalf(whole), mode), mode);
    const at::Tensor y2 = cv3_conv_.Forward(cv3_csp_.Forward(y1, mode), mode);
    return cv4_.Forward(at::cat({whole, y1, y2}, 1), mode);
  }

 private:
  ConvNorm cv1_;
  RepCsp cv2_csp_;
  ConvNorm cv2_conv_;
  RepCsp cv3_csp_;
  ConvNorm cv3_conv_;
  ConvNorm cv4_;
};

class AConv : public Downsample {
 public:
  AConv(TensorRegistry& registry, const std::string& name, int in, int out)
      : cv_(registry, name + ".cv", {.in = in, .out = out, .kernel = 3, .stride = 2}) {}

  at::Tensor Forward(const at::Tensor& x, PassMode mode) const override {
    return cv_.Forward(SmoothingPool(x), mode);
  }

 private:
  ConvNorm cv_;
};

class ADown : public Downsample {
 public:
  ADown(TensorRegistry& registry, const std::string& name, int in, int out)
      : cv1_(registry, name + ".cv1", {.in = in / 2, .out = out / 2, .kernel = 3, .stride = 2}),
        cv2_(registry, name + ".cv2", {.in = in / 2, .out = out / 2}) {}

  at::Tensor Forward(const at::Tensor& x, PassMode mode) const override {
    const at::Tensor pooled = SmoothingPool(x);
    const int64_t half = pooled.size(1) / 2;
    const at::Tensor strided = cv1_.Forward(pooled.narrow(1, 0, half), mode);
    const at::Tensor peaks =
        at::max_pool2d(pooled.narrow(1, half, half), {3, 3}, {2, 2}, {1, 1}, {1, 1}, false);
    return Join(strided, cv2_.Forward(peaks, mode));
  }

 private:
  ConvNorm cv1_;
  ConvNorm cv2_;
};

}  // namespace

ConvNorm::ConvNorm(TensorRegistry& registry, const std::string& name, const Options& options)
    : weight_(registry.ConvWeight(name + ".conv.weight", options.in, options.out, options.kernel,
                                  options.groups)),
      gamma_(registry.Vector(name + ".bn.weight", options.out, 1.0)),
      beta_(registry.Vector(name + ".bn.bias", options.out, 0.0)),
      running_mean_(registry.Buffer(name + ".bn.running_mean", options.out, 0.0)),
      running_var_(registry.Buffer(name + ".bn.running_var", options.out, 1.0)),
      step_count_(registry.Counter(name + ".bn.num_batches_tracked")),
      stride_(options.stride),
      padding_((options.kernel - 1) / 2),
      groups_(options.groups),
      activate_(options.activate) {}

at::Tensor ConvNorm::Forward(const at::Tensor& x, PassMode mode) const {
  const at::Tensor y =
      at::conv2d(x, weight_, {}, {stride_, stride_}, {padding_, padding_}, {1, 1}, groups_);
  if (mode.training) step_count_.add_(1);
  const at::Tensor z = at::batch_norm(y, gamma_, beta_, running_mean_, running_var_, mode.training,
                                      kNormMomentum, kNormEpsilon, /*cudnn_enabled=*/true);
  return activate_ ? at::silu(z) : z;
}

RepConv::RepConv(TensorRegistry& registry, const std::string& name, int in, int out)
    : conv1_(registry, name + ".conv1", {.in = in, .out = out, .kernel = 3, .activate = false}),
      conv2_(registry, name + ".conv2", {.in = in, .out = out, .activate = false}) {}

at::Tensor RepConv::Forward(const at::Tensor& x, PassMode mode) const {
  return at::silu(at::add(conv1_.Forward(x, mode), conv2_.Forward(x, mode)));
}

RepBottleneck::RepBottleneck(TensorRegistry& registry, const std::string& name, int channels)
    : cv1_(registry, name + ".cv1", channels, channels),
      cv2_(registry, name + ".cv2", {.in = channels, .out = channels, .kernel = 3}) {}

at::Tensor RepBottleneck::Forward(const at::Tensor& x, PassMode mode) const {
  return at::add(x, cv2_.Forward(cv1_.Forward(x, mode), mode));
}

RepCsp::RepCsp(TensorRegistry& registry, const std::string& name, int channels,
               int bottleneck_count)
    : cv1_(registry, name + ".cv1", {.in = channels, .out = channels / 2}),
      cv2_(registry, name + ".cv2", {.in = channels, .out = channels / 2}),
      cv3_(registry, name + ".cv3", {.in = channels / 2 * 2, .out = channels}) {
  for (const int i : c10::irange(bottleneck_count)) {
    m_.emplace_back(registry, name + ".m." + std::to_string(i), channels / 2);
  }
}

at::Tensor RepCsp::Forward(const at::Tensor& x, PassMode mode) const {
  at::Tensor deep = cv1_.Forward(x, mode);
  for (const RepBottleneck& bottleneck : m_) deep = bottleneck.Forward(deep, mode);
  return cv3_.Forward(Join(deep, cv2_.Forward(x, mode)), mode);
}

std::unique_ptr<Aggregation> MakeElan(TensorRegistry& registry, const std::string& name, int in,
                                      ElanChannels channels) {
  return std::make_unique<Elan>(registry, name, in, channels);
}

std::unique_ptr<Aggregation> MakeRepElan(TensorRegistry& registry, const std::string& name, int in,
                                         ElanChannels channels, int bottleneck_count) {
  return std::make_unique<RepElan>(registry, name, in, channels, bottleneck_count);
}

std::unique_ptr<Downsample> MakeDownsample(TensorRegistry& registry, const std::string& name,
                                           DownKind kind, int in, int out) {
  if (kind == DownKind::kADown) return std::make_unique<ADown>(registry, name, in, out);
  return std::make_unique<AConv>(registry, name, in, out);
}

SppElan::SppElan(TensorRegistry& registry, const std::string& name, int in, int out)
    : cv1_(registry, name + ".cv1", {.in = in, .out = out / 2}),
      cv5_(registry, name + ".cv5", {.in = 4 * (out / 2), .out = out}) {}

at::Tensor SppElan::Forward(const at::Tensor& x, PassMode mode) const {
  const auto pool = [](const at::Tensor& f) {
    return at::max_pool2d(f, {5, 5}, {1, 1}, {2, 2}, {1, 1}, false);
  };
  const at::Tensor f0 = cv1_.Forward(x, mode);
  const at::Tensor f1 = pool(f0);
  const at::Tensor f2 = pool(f1);
  const at::Tensor f3 = pool(f2);
  return cv5_.Forward(at::cat({f0, f1, f2, f3}, 1), mode);
}

at::Tensor UpsampleAndJoin(const at::Tensor& x, const at::Tensor& skip) {
  return Join(at::upsample_nearest2d(x, at::OptionalIntArrayRef(), c10::ArrayRef<double>{2.0, 2.0}),
              skip);
}

at::Tensor Join(const at::Tensor& a, const at::Tensor& b) { return at::cat({a, b}, 1); }

}  // namespace libreyolo::yolo9
