// One iteration of inference in its three stages: files to input tensor, input to predictions,
// predictions to detections. Buffers are made once and reused.
//
//   LY_ASSIGN_OR_RETURN(auto pipeline, InferPipeline::Make(options, device));
//   LY_RETURN_IF_ERROR(pipeline->Preprocess(i));
//   LY_RETURN_IF_ERROR(pipeline->Forward());
//   LY_ASSIGN_OR_RETURN(const int64_t detections, pipeline->Postprocess());
//
// For one thread, which must be in c10::InferenceMode.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/job_spec.h"
#include "server/worker/workload/compute_device.h"
#include "server/worker/yolo9/model_loader.h"

namespace libreyolo::worker {

class InferPipeline {
 public:
  struct Options {
    std::string weights_path;         // empty: initial weights
    std::string size;                 // empty: the file decides; "t" for initial weights
    std::vector<std::string> images;  // files; empty: the bundled sample
    int batch = 1;
    int imgsz = 640;  // a multiple of 32
    bool half = false;
    job::AmpDtype amp_dtype = job::AmpDtype::kFloat16;
    double conf = 0.25;
    double iou = 0.45;
    int max_det = 300;
  };

  // Loads the model onto the device. Errors are those of yolo9::LoadModel, and OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<InferPipeline>> Make(const Options& options,
                                                             const ComputeDevice& device);
  ~InferPipeline();
  InferPipeline(const InferPipeline&) = delete;
  InferPipeline& operator=(const InferPipeline&) = delete;

  // Reads, decodes and letterboxes the images of an iteration, from their files each time: image
  // (iteration * batch + j) modulo their number. SOURCE_UNREADABLE, SOURCE_NOT_FOUND.
  absl::Status Preprocess(int64_t iteration);
  // Copies the input to the device and runs the network. On a GPU it may return before the device
  // is done.
  absl::Status Forward();
  // Detections kept over the whole batch. The predictions are released.
  absl::StatusOr<int64_t> Postprocess();

  // The network is not to be used; the rest describes what was loaded.
  const yolo9::LoadedModel& model() const;

 private:
  struct Impl;
  explicit InferPipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace libreyolo::worker
