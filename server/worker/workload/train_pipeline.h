// One training step in its parts, in the order in which they run: batch to device, forward with
// both losses, gradients dropped, backward, optimizer, and what follows (moving average, losses to
// the host, schedule).
//
//   LY_ASSIGN_OR_RETURN(auto pipeline, TrainPipeline::Make(options, device));
//   LY_RETURN_IF_ERROR(pipeline->ToDevice(batch));
//   LY_RETURN_IF_ERROR(pipeline->Forward());
//   LY_RETURN_IF_ERROR(pipeline->ZeroGrad());
//   LY_RETURN_IF_ERROR(pipeline->Backward());
//   LY_RETURN_IF_ERROR(pipeline->Optimize());
//   LY_ASSIGN_OR_RETURN(const TrainLosses losses, pipeline->Finish());
//
// For one thread, with gradients enabled. Every part may fail with OUT_OF_MEMORY.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/worker/data/loader.h"
#include "server/worker/workload/compute_device.h"
#include "server/worker/yolo9/model_loader.h"

namespace libreyolo::worker {

// Weighted, of one step.
struct TrainLosses {
  double total = 0;
  double box = 0;
  double dfl = 0;
  double cls = 0;
};

class TrainPipeline {
 public:
  struct Options {
    std::string weights_path;     // empty: initial weights
    std::string size;             // empty: the file decides; "t" for initial weights
    int class_count = 0;          // of the dataset; 0 keeps the weights' own
    int imgsz = 640;              // a multiple of 32
    bool amp = false;             // float16 with a gradient scaler; a GPU's only
    int64_t steps_per_epoch = 1;  // these two shape the learning rate
    int64_t epochs = 1;
  };

  // Loads the model onto the device. Errors are those of yolo9::LoadTrainingModel, and
  // OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<TrainPipeline>> Make(const Options& options,
                                                             const ComputeDevice& device);
  ~TrainPipeline();
  TrainPipeline(const TrainPipeline&) = delete;
  TrainPipeline& operator=(const TrainPipeline&) = delete;

  // Keeps the batch's memory until the next call. On a GPU the copies need not be done when this
  // returns.
  absl::Status ToDevice(data::Batch batch);
  absl::Status Forward();
  absl::Status ZeroGrad();
  absl::Status Backward();
  absl::Status Optimize();
  // Waits for the device.
  absl::StatusOr<TrainLosses> Finish();

  // Steps that the scaler left out because a gradient was not finite.
  int64_t skipped_step_count() const;
  // The network is not to be used; the rest describes what was loaded.
  const yolo9::LoadedModel& model() const;

 private:
  struct Impl;
  explicit TrainPipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Memory for batches that `device` can copy from while it computes: pinned for a GPU, empty
// (ordinary memory) for the CPU.
data::BufferAllocator BatchAllocator(const ComputeDevice& device);

}  // namespace libreyolo::worker
