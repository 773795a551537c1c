#include "server/worker/workload/train_pipeline.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "server/worker/torch_call.h"
#include "server/worker/yolo9/amp.h"
#include "server/worker/yolo9/loss.h"
#include "server/worker/yolo9/network.h"
#include "server/worker/yolo9/optimizer.h"
#include "server/worker/yolo9/schedule.h"

namespace libreyolo::worker {
namespace {

// Rows of the fullest example: padding behind it costs the assigner time and tells it nothing.
int64_t UsedRows(const data::Batch& batch) {
  int64_t most = 1;
  for (int i = 0; i < batch.size; ++i) {
    const float* const rows =
        batch.targets.get() + size_t{data::kMaxTargets} * data::kTargetFields * i;
    int64_t used = 0;
    while (used < data::kMaxTargets && rows[used * data::kTargetFields] >= 0) ++used;
    most = std::max(most, used);
  }
  return most;
}

}  // namespace

struct TrainPipeline::Impl {
  Impl(const Options& the_options, const ComputeDevice& the_device, yolo9::LoadedModel the_model)
      : options(the_options),
        device(the_device),
        model(std::move(the_model)),
        main_loss(model.class_count),
        aux_loss(model.class_count),
        schedule{options.steps_per_epoch, options.epochs},
        settings(yolo9::SettingsOfStep(schedule, 0)),
        optimizer(*model.network),
        ema(*model.network),
        scaler(options.amp, device.torch_device()) {}

  const Options options;
  const ComputeDevice device;
  yolo9::LoadedModel model;
  yolo9::DetectionLoss main_loss;
  yolo9::DetectionLoss aux_loss;
  const yolo9::ScheduleOptions schedule;
  yolo9::StepSettings settings;
  int64_t step = 0;
  int64_t skipped = 0;
  yolo9::SgdOptimizer optimizer;
  yolo9::ModelEma ema;
  yolo9::GradScaler scaler;

  data::Batch batch;
  at::Tensor images;
  at::Tensor targets;
  yolo9::LossTerms losses;
};

TrainPipeline::TrainPipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrainPipeline::~TrainPipeline() = default;

const yolo9::LoadedModel& TrainPipeline::model() const { return impl_->model; }
int64_t TrainPipeline::skipped_step_count() const { return impl_->skipped; }

absl::StatusOr<std::unique_ptr<TrainPipeline>> TrainPipeline::Make(const Options& options,
                                                                   const ComputeDevice& device) {
  LY_ASSIGN_OR_RETURN(yolo9::LoadedModel model,
                      yolo9::LoadTrainingModel(options.weights_path, options.size,
                                               {.class_count = options.class_count}));
  std::unique_ptr<Impl> impl;
  LY_RETURN_IF_ERROR(CallTorch([&] {
    if (!device.is_cpu()) model.network->To(device.torch_device());
    impl = std::make_unique<Impl>(options, device, std::move(model));
  }));
  return std::unique_ptr<TrainPipeline>(new TrainPipeline(std::move(impl)));
}

absl::Status TrainPipeline::ToDevice(data::Batch batch) {
  Impl& self = *impl_;
  return CallTorch([&] {
    self.images.reset();
    self.targets.reset();
    self.batch = std::move(batch);
    const int64_t size = self.batch.size, side = self.options.imgsz;
    // The batch outlives the tensors over it: both are replaced together.
    const at::Tensor images =
        at::from_blob(self.batch.images.get(), {size, 3, side, side}, at::kFloat);
    const at::Tensor targets =
        at::from_blob(self.batch.targets.get(), {size, data::kMaxTargets, data::kTargetFields},
                      at::kFloat)
            .narrow(1, 0, UsedRows(self.batch));
    if (self.device.is_cpu()) {
      self.images = images;
      self.targets = targets;
      return;
    }
    constexpr bool kNonBlocking = true;
    self.images = images.to(self.device.torch_device(), at::kFloat, kNonBlocking);
    self.targets = targets.to(self.device.torch_device(), at::kFloat, kNonBlocking);
  });
}

absl::Status TrainPipeline::Forward() {
  Impl& self = *impl_;
  return CallTorch([&self] {
    std::optional<yolo9::AutocastScope> autocast;
    if (self.options.amp) autocast.emplace(self.device.torch_device().type(), at::kHalf);
    const yolo9::TrainOutput output = self.model.network->ForwardTrain(self.images);
    const yolo9::LossTerms main = self.main_loss.Compute(output.raw_maps, self.targets);
    const yolo9::LevelTensors aux_maps = self.model.network->ForwardAux(output);
    self.losses = yolo9::Combine(main, self.aux_loss.Compute(aux_maps, self.targets));
  });
}

absl::Status TrainPipeline::ZeroGrad() {
  return CallTorch([this] { impl_->optimizer.ZeroGrad(); });
}

absl::Status TrainPipeline::Backward() {
  Impl& self = *impl_;
  return CallTorch([&self] { self.scaler.Scale(self.losses.total).backward(); });
}

absl::Status TrainPipeline::Optimize() {
  Impl& self = *impl_;
  return CallTorch([&self] {
    if (self.scaler.Unscale(self.optimizer.Gradients())) {
      self.optimizer.Step(self.settings);
    } else {
      ++self.skipped;
    }
    self.scaler.Update();
  });
}

absl::StatusOr<TrainLosses> TrainPipeline::Finish() {
  Impl& self = *impl_;
  TrainLosses result;
  const absl::Status status = CallTorch([&] {
    self.ema.Update();
    // Two reads, as in the reference: the total first, then the parts in one copy.
    result.total = self.losses.total.item<double>();
    const at::Tensor parts =
        at::stack({self.losses.box.detach(), self.losses.dfl.detach(), self.losses.cls.detach()})
            .to(at::kCPU, at::kDouble);
    const auto* const values = parts.const_data_ptr<double>();
    result.box = values[0];
    result.dfl = values[1];
    result.cls = values[2];
    self.losses = {};
    self.settings = yolo9::SettingsOfStep(self.schedule, ++self.step);
  });
  if (!status.ok()) return status;
  return result;
}

data::BufferAllocator BatchAllocator(const ComputeDevice& device) {
  if (device.is_cpu()) return nullptr;
  return [](size_t float_count) -> data::FloatBuffer {
    at::Tensor memory;
    const absl::Status status = CallTorch([&] {
      memory = at::empty({static_cast<int64_t>(float_count)},
                         at::TensorOptions(at::kFloat).pinned_memory(true));
    });
    // Memory that cannot be pinned still holds a batch; the copy then waits.
    if (!status.ok()) return data::FloatBuffer(new float[float_count]);
    float* const floats = memory.data_ptr<float>();
    return data::FloatBuffer(floats, [memory = std::move(memory)](float*) {});
  };
}

}  // namespace libreyolo::worker
