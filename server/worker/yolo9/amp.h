// Mixed precision, which LibTorch's C++ side has only in parts: the autocast scope and the gradient
// scaler. One thread at a time; both are bound to the calling thread. May throw c10::Error: callers
// go through CallTorch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace libreyolo::yolo9 {

// While it lives, ops of this thread on `device` run in `dtype` where that is safe. Casts of
// parameters are kept within the outermost scope and dropped at its end.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, at::ScalarType dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const c10::DeviceType device_;
  const bool was_enabled_;
  const at::ScalarType previous_dtype_;
  const bool was_caching_;
};

// Multiplies the loss so that small gradients survive float16, and finds out when they did not. Per
// step:
//
//   scaler.Scale(loss).backward();
//   if (scaler.Unscale(optimizer.Gradients())) optimizer.Step(settings);   // one wait for the
//   device scaler.Update();
class GradScaler {
 public:
  // A disabled one (bfloat16, no AMP) changes nothing, waits for nothing and lets every step
  // through.
  GradScaler(bool enabled, const c10::Device& device);

  at::Tensor Scale(const at::Tensor& loss) const;
  // Divides the gradients in place. False when one of them is infinite or NaN: the step must be
  // left out.
  bool Unscale(const std::vector<at::Tensor>& gradients);
  void Update();
  // Waits for the device.
  double scale() const;

 private:
  const bool enabled_;
  at::Tensor scale_;         // 0-dim float32
  at::Tensor growth_count_;  // 0-dim int32: good steps since the last change
  at::Tensor found_inf_;
};

}  // namespace libreyolo::yolo9
