#include "server/worker/yolo9/amp.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <map>

namespace libreyolo::yolo9 {
namespace {

constexpr double kInitialScale = 65536;
constexpr double kGrowthFactor = 2;
constexpr double kBackoffFactor = 0.5;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

AutocastScope::AutocastScope(c10::DeviceType device, at::ScalarType dtype)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      previous_dtype_(at::autocast::get_autocast_dtype(device)),
      was_caching_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, dtype);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(true);
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
  at::autocast::set_autocast_cache_enabled(was_caching_);
}

GradScaler::GradScaler(bool enabled, const c10::Device& device) : enabled_(enabled) {
  if (!enabled_) return;
  scale_ = at::full({}, kInitialScale, at::TensorOptions(device).dtype(at::kFloat));
  growth_count_ = at::zeros({}, at::TensorOptions(device).dtype(at::kInt));
  found_inf_ = at::zeros({}, scale_.options());
}

at::Tensor GradScaler::Scale(const at::Tensor& loss) const {
  return enabled_ ? loss * scale_ : loss;
}

bool GradScaler::Unscale(const std::vector<at::Tensor>& gradients) {
  if (!enabled_) return true;
  const at::NoGradGuard no_grad;
  found_inf_.zero_();
  // In double: 1 / scale must be exact where float32 allows it.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& gradient : gradients) by_type[gradient.scalar_type()].push_back(gradient);
  for (auto& [type, group] : by_type) {
    at::_amp_foreach_non_finite_check_and_unscale_(group, found_inf_, inverse);
  }
  return found_inf_.item<float>() == 0;
}

void GradScaler::Update() {
  if (!enabled_) return;
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_count_, found_inf_, kGrowthFactor, kBackoffFactor,
                         kGrowthInterval);
}

double GradScaler::scale() const { return enabled_ ? scale_.item<float>() : 1; }

}  // namespace libreyolo::yolo9
