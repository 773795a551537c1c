#include "server/worker/workload/infer_pipeline.h"

#include <ATen/ops/empty.h>

#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "server/worker/data/image_decode.h"
#include "server/worker/data/image_source.h"
#include "server/worker/data/letterbox.h"
#include "server/worker/torch_call.h"
#include "server/worker/yolo9/amp.h"
#include "server/worker/yolo9/network.h"
#include "server/worker/yolo9/postprocess.h"

namespace libreyolo::worker {
namespace {

data::PadMode ToPadMode(yolo9::LetterboxPad pad) {
  return pad == yolo9::LetterboxPad::kCenter ? data::PadMode::kCenter : data::PadMode::kTopLeft;
}

}  // namespace

struct InferPipeline::Impl {
  Options options;
  std::optional<ComputeDevice> device;
  yolo9::LoadedModel model;

  data::ImageDecoder decoder;
  data::Letterboxer letterboxer;
  data::Image image;
  at::Tensor input;                                // (batch, 3, imgsz, imgsz), on the host
  std::vector<yolo9::LetterboxGeometry> geometry;  // of each image of the batch
  yolo9::EvalOutput output;

  absl::Status Decode(int64_t index) {
    if (options.images.empty()) {
      return decoder.Decode(data::SampleImageJpeg(), data::kSampleImageName, image);
    }
    const auto count = static_cast<int64_t>(options.images.size());
    return decoder.DecodeFile(options.images[static_cast<size_t>(index % count)], image);
  }
};

InferPipeline::InferPipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
InferPipeline::~InferPipeline() = default;

const yolo9::LoadedModel& InferPipeline::model() const { return impl_->model; }

absl::StatusOr<std::unique_ptr<InferPipeline>> InferPipeline::Make(const Options& options,
                                                                   const ComputeDevice& device) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->device = device;
  auto model = options.weights_path.empty() ? yolo9::MakeRandomModel(options.size)
                                            : yolo9::LoadModel(options.weights_path, options.size);
  if (!model.ok()) return model.status();
  impl->model = *std::move(model);
  impl->geometry.resize(static_cast<size_t>(options.batch));
  LY_RETURN_IF_ERROR(CallTorch([&] {
    if (!device.is_cpu()) impl->model.network->To(device.torch_device());
    impl->input =
        at::empty({options.batch, 3, options.imgsz, options.imgsz}, at::TensorOptions(at::kFloat));
  }));
  return std::unique_ptr<InferPipeline>(new InferPipeline(std::move(impl)));
}

absl::Status InferPipeline::Preprocess(int64_t iteration) {
  Impl& self = *impl_;
  const int side = self.options.imgsz;
  const int64_t floats_per_image = int64_t{3} * side * side;
  auto* const planes = static_cast<float*>(self.input.data_ptr());
  for (int j = 0; j < self.options.batch; ++j) {
    LY_RETURN_IF_ERROR(self.Decode(iteration * self.options.batch + j));
    self.letterboxer.Letterbox(self.image, side, side, ToPadMode(self.model.letterbox),
                               planes + j * floats_per_image);
    self.geometry[static_cast<size_t>(j)] = {.original_width = self.image.width,
                                             .original_height = self.image.height,
                                             .input_width = side,
                                             .input_height = side,
                                             .pad = self.model.letterbox};
  }
  return absl::OkStatus();
}

absl::Status InferPipeline::Forward() {
  Impl& self = *impl_;
  return CallTorch([&self] {
    const c10::Device device = self.device->torch_device();
    const at::Tensor input = self.device->is_cpu() ? self.input : self.input.to(device);
    // A fresh scope drops its cached weights at its end: they are cast anew in each iteration.
    std::optional<yolo9::AutocastScope> autocast;
    if (self.options.half) {
      autocast.emplace(device.type(), self.options.amp_dtype == job::AmpDtype::kFloat16
                                          ? at::kHalf
                                          : at::kBFloat16);
    }
    self.output = self.model.network->ForwardEval(input);
  });
}

absl::StatusOr<int64_t> InferPipeline::Postprocess() {
  Impl& self = *impl_;
  int64_t kept = 0;
  const absl::Status status = CallTorch([&self, &kept] {
    const yolo9::PostprocessOptions options{
        .conf = self.options.conf, .iou = self.options.iou, .max_det = self.options.max_det};
    for (int j = 0; j < self.options.batch; ++j) {
      kept +=
          static_cast<int64_t>(yolo9::Postprocess(self.output.predictions[j],
                                                  self.geometry[static_cast<size_t>(j)], options)
                                   .size());
    }
    self.output = {};
  });
  if (!status.ok()) return status;
  return kept;
}

}  // namespace libreyolo::worker
