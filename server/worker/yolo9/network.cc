#include "server/worker/yolo9/network.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/torch_call.h"
#include "server/worker/yolo9/blocks.h"
#include "server/worker/yolo9/head.h"

namespace libreyolo::yolo9 {
namespace {

struct BackboneMaps {
  at::Tensor p3, p4, b5, p5;
};

class Backbone {
 public:
  Backbone(TensorRegistry& registry, const Variant& v)
      : conv0_(registry, "backbone.conv0", {.in = 3, .out = v.conv0_out, .kernel = 3, .stride = 2}),
        conv1_(registry, "backbone.conv1",
               {.in = v.conv0_out, .out = v.conv1_out, .kernel = 3, .stride = 2}),
        elan1_(v.elan1_kind == ElanKind::kElan
                   ? MakeElan(registry, "backbone.elan1", v.conv1_out, v.elan1)
                   : MakeRepElan(registry, "backbone.elan1", v.conv1_out, v.elan1,
                                 v.bottleneck_count)),
        down2_(MakeDownsample(registry, "backbone.down2", v.down_kind, v.elan1.out, v.down2_out)),
        elan2_(MakeRepElan(registry, "backbone.elan2", v.down2_out, v.elan2, v.bottleneck_count)),
        down3_(MakeDownsample(registry, "backbone.down3", v.down_kind, v.elan2.out, v.down3_out)),
        elan3_(MakeRepElan(registry, "backbone.elan3", v.down3_out, v.elan3, v.bottleneck_count)),
        down4_(MakeDownsample(registry, "backbone.down4", v.down_kind, v.elan3.out, v.down4_out)),
        elan4_(MakeRepElan(registry, "backbone.elan4", v.down4_out, v.elan4, v.bottleneck_count)),
        spp_(registry, "backbone.spp", v.elan4.out, v.spp_out) {}

  BackboneMaps Forward(const at::Tensor& images, PassMode mode) const {
    const at::Tensor x = elan1_->Forward(conv1_.Forward(conv0_.Forward(images, mode), mode), mode);
    BackboneMaps maps;
    maps.p3 = elan2_->Forward(down2_->Forward(x, mode), mode);
    maps.p4 = elan3_->Forward(down3_->Forward(maps.p3, mode), mode);
    maps.b5 = elan4_->Forward(down4_->Forward(maps.p4, mode), mode);
    maps.p5 = spp_.Forward(maps.b5, mode);
    return maps;
  }

 private:
  ConvNorm conv0_;
  ConvNorm conv1_;
  std::unique_ptr<Aggregation> elan1_;
  std::unique_ptr<Downsample> down2_;
  std::unique_ptr<Aggregation> elan2_;
  std::unique_ptr<Downsample> down3_;
  std::unique_ptr<Aggregation> elan3_;
  std::unique_ptr<Downsample> down4_;
  std::unique_ptr<Aggregation> elan4_;
  SppElan spp_;
};

class Neck {
 public:
  Neck(TensorRegistry& registry, const Variant& v)
      : elan_up1_(MakeRepElan(registry, "neck.elan_up1", v.spp_out + v.elan3.out, v.elan_up1,
                              v.bottleneck_count)),
        elan_up2_(MakeRepElan(registry, "neck.elan_up2", v.elan_up1.out + v.elan2.out, v.elan_up2,
                              v.bottleneck_count)),
        down1_(
            MakeDownsample(registry, "neck.down1", v.down_kind, v.elan_up2.out, v.neck_down1_out)),
        elan_down1_(MakeRepElan(registry, "neck.elan_down1", v.neck_down1_out + v.elan_up1.out,
                                v.elan_down1, v.bottleneck_count)),
        down2_(MakeDownsample(registry, "neck.down2", v.down_kind, v.elan_down1.out,
                              v.neck_down2_out)),
        elan_down2_(MakeRepElan(registry, "neck.elan_down2", v.neck_down2_out + v.spp_out,
                                v.elan_down2, v.bottleneck_count)) {}

  LevelTensors Forward(const BackboneMaps& maps, PassMode mode) const {
    const at::Tensor middle = elan_up1_->Forward(UpsampleAndJoin(maps.p5, maps.p4), mode);
    const at::Tensor n3 = elan_up2_->Forward(UpsampleAndJoin(middle, maps.p3), mode);
    const at::Tensor n4 = elan_down1_->Forward(Join(down1_->Forward(n3, mode), middle), mode);
    const at::Tensor n5 = elan_down2_->Forward(Join(down2_->Forward(n4, mode), maps.p5), mode);
    return {n3, n4, n5};
  }

 private:
  std::unique_ptr<Aggregation> elan_up1_;
  std::unique_ptr<Aggregation> elan_up2_;
  std::unique_ptr<Downsample> down1_;
  std::unique_ptr<Aggregation> elan_down1_;
  std::unique_ptr<Downsample> down2_;
  std::unique_ptr<Aggregation> elan_down2_;
};

HeadOptions MakeHeadOptions(const Variant& v, int class_count, int class_width) {
  return {.in = {v.elan_up2.out, v.elan_down1.out, v.elan_down2.out},
          .class_count = class_count,
          .box_width = BoxTowerWidth(v),
          .class_width = class_width};
}

// The second neck and head that only training runs.
class AuxBranch {
 public:
  AuxBranch(TensorRegistry& registry, const Variant& v, int class_count)
      : spp_(registry, "aux.spp", v.elan4.out, v.spp_out),
        elan_a4_(MakeRepElan(registry, "aux.elan_a4", v.spp_out + v.elan3.out, v.elan_up1,
                             v.bottleneck_count)),
        elan_a3_(MakeRepElan(registry, "aux.elan_a3", v.elan_up1.out + v.elan2.out, v.elan_up2,
                             v.bottleneck_count)),
        // Its features A3, A4, A5 have the channels of up2, up1 and spp, which equal those of the
        // main head's inputs.
        head_(registry, "aux_head",
              MakeHeadOptions(v, class_count, DefaultClassTowerWidth(v, class_count))) {}

  LevelTensors Forward(const LevelTensors& backbone, PassMode mode) const {
    const at::Tensor a5 = spp_.Forward(backbone[2], mode);
    const at::Tensor a4 = elan_a4_->Forward(UpsampleAndJoin(a5, backbone[1]), mode);
    const at::Tensor a3 = elan_a3_->Forward(UpsampleAndJoin(a4, backbone[0]), mode);
    return head_.Forward({a3, a4, a5}, mode);
  }

 private:
  SppElan spp_;
  std::unique_ptr<Aggregation> elan_a4_;
  std::unique_ptr<Aggregation> elan_a3_;
  Head head_;
};

}  // namespace

struct Network::Impl {
  Impl(const Variant& v, int nc, int width, TensorRegistry& registry)
      : variant(v),
        class_count(nc),
        class_tower_width(width),
        backbone(registry, v),
        neck(registry, v),
        head(registry, "head", MakeHeadOptions(v, nc, width)),
        tensors(registry.Take()) {
    main_tensor_count = tensors.size();
  }

  // The main head's entry `name`, which exists.
  NamedTensor& Find(const std::string& name) {
    const auto it = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const NamedTensor& t) { return t.name == name; });
    LY_CHECK(it != tensors.end()) << name;
    return *it;
  }

  const Variant& variant;
  int class_count;
  int class_tower_width;
  Backbone backbone;
  Neck neck;
  Head head;
  std::unique_ptr<AuxBranch> aux;
  std::vector<NamedTensor> tensors;
  size_t main_tensor_count = 0;
  PassMode mode;
};

Network::Network(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Network::~Network() = default;

absl::StatusOr<std::unique_ptr<Network>> Network::Make(const NetworkConfig& config) {
  const Variant* variant = FindVariant(config.size);
  if (variant == nullptr) {
    return MakeError(reason::kArgumentInvalid, absl::StrCat("no YOLO9 size \"", config.size, "\""),
                     {absl::StrCat("the sizes are ", absl::StrJoin(VariantSizes(), ", "))});
  }
  if (config.class_count < 1 || config.class_tower_width < 0) {
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat("a model cannot have ", config.class_count, " classes"));
  }
  const int width = config.class_tower_width > 0
                        ? config.class_tower_width
                        : DefaultClassTowerWidth(*variant, config.class_count);
  std::unique_ptr<Network> network;
  LY_RETURN_IF_ERROR(worker::CallTorch([&] {
    TensorRegistry registry(config.seed);
    network.reset(
        new Network(std::make_unique<Impl>(*variant, config.class_count, width, registry)));
    if (config.with_aux) network->AttachAux(config.seed + 1);
  }));
  return network;
}

EvalOutput Network::ForwardEval(const at::Tensor& images) {
  EvalOutput out;
  out.features = impl_->neck.Forward(impl_->backbone.Forward(images, impl_->mode), impl_->mode);
  out.raw_maps = impl_->head.Forward(out.features, impl_->mode);
  out.predictions = impl_->head.Decode(out.raw_maps);
  return out;
}

TrainOutput Network::ForwardTrain(const at::Tensor& images) {
  const BackboneMaps maps = impl_->backbone.Forward(images, impl_->mode);
  TrainOutput out;
  out.raw_maps = impl_->head.Forward(impl_->neck.Forward(maps, impl_->mode), impl_->mode);
  out.backbone = {maps.p3, maps.p4, maps.b5};
  return out;
}

LevelTensors Network::ForwardAux(const TrainOutput& output) {
  LY_CHECK(has_aux());
  return impl_->aux->Forward(output.backbone, impl_->mode);
}

void Network::SetTraining(bool training) { impl_->mode.training = training; }
bool Network::training() const { return impl_->mode.training; }

void Network::To(const at::Device& device) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& entry : impl_->tensors) entry.tensor.set_data(entry.tensor.to(device));
}

void Network::To(at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& entry : impl_->tensors) {
    if (entry.tensor.is_floating_point()) entry.tensor.set_data(entry.tensor.to(dtype));
  }
}

void Network::AttachAux(uint64_t seed) {
  LY_CHECK(!has_aux());
  const at::TensorOptions like = impl_->tensors.front().tensor.options();
  TensorRegistry registry(seed);
  impl_->aux = std::make_unique<AuxBranch>(registry, impl_->variant, impl_->class_count);
  const at::NoGradGuard no_grad;
  for (NamedTensor& entry : registry.Take()) {
    const at::ScalarType dtype = entry.tensor.is_floating_point()
                                     ? c10::typeMetaToScalarType(like.dtype())
                                     : entry.tensor.scalar_type();
    entry.tensor.set_data(entry.tensor.to(like.device(), dtype));
    impl_->tensors.push_back(std::move(entry));
  }
}

void Network::ReplaceClassCount(int class_count, uint64_t seed) {
  LY_CHECK(!has_aux() && class_count >= 1) << class_count;
  const at::NoGradGuard no_grad;
  TensorRegistry registry(seed);
  for (int level = 0; level < kLevelCount; ++level) {
    const std::string box = absl::StrCat("head.cv2.", level, ".2.bias");
    impl_->Find(box).tensor.fill_(kInitialBoxBias);
    const std::string tower = absl::StrCat("head.cv3.", level, ".2");
    NamedTensor& weight = impl_->Find(tower + ".weight");
    NamedTensor& bias = impl_->Find(tower + ".bias");
    at::Tensor new_weight =
        registry.ConvWeight(weight.name, impl_->class_tower_width, class_count, 1, 1);
    at::Tensor new_bias = registry.Vector(bias.name, class_count, kInitialClassBias);
    new_weight.set_data(new_weight.to(weight.tensor.options()));
    new_bias.set_data(new_bias.to(bias.tensor.options()));
    impl_->head.ReplaceFinalClass(level, new_weight, new_bias);
    weight.tensor = new_weight;
    bias.tensor = new_bias;
  }
  impl_->class_count = class_count;
}

const std::vector<NamedTensor>& Network::tensors() const { return impl_->tensors; }
std::string Network::size() const { return impl_->variant.size; }
int Network::class_count() const { return impl_->class_count; }
int Network::class_tower_width() const { return impl_->class_tower_width; }
bool Network::has_aux() const { return impl_->aux != nullptr; }

int64_t Network::parameter_count() const {
  int64_t count = 0;
  for (size_t i = 0; i < impl_->main_tensor_count; ++i) {
    if (impl_->tensors[i].is_parameter) count += impl_->tensors[i].tensor.numel();
  }
  return count;
}

}  // namespace libreyolo::yolo9
