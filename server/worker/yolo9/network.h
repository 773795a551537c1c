// The YOLO9 detector as LibTorch tensors and ATen calls: unfused, as the Python package runs it
// (batch norms apart, RepConv with both branches), so that a profile shows the same work.
//
//   LY_ASSIGN_OR_RETURN(auto network, Network::Make({.size = "t"}));
//   c10::InferenceMode guard;
//   EvalOutput out;
//   LY_RETURN_IF_ERROR(worker::CallTorch([&] { out = network->ForwardEval(images); }));
//
// One thread at a time. Everything that takes or makes tensors may throw c10::Error: callers go
// through CallTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/yolo9/variants.h"

namespace libreyolo::yolo9 {

struct NetworkConfig {
  std::string size = "t";
  int class_count = 80;
  // Channels of the class towers; 0 takes what a fresh model of this size and class count has.
  int class_tower_width = 0;
  bool with_aux = false;  // the auxiliary branch of training
  uint64_t seed = 0;      // of the initial weights: the same seed gives the same weights
};

// One raw map per level, (B, 64 + class_count, H/stride, W/stride): box logits (16 * side + bin;
// sides left, top, right, bottom), then class logits.
using LevelTensors = std::array<at::Tensor, kLevelCount>;

struct EvalOutput {
  at::Tensor predictions;  // (B, 4 + class_count, A): x1, y1, x2, y2 in input pixels, then class
                           // scores 0..1
  LevelTensors raw_maps;
  LevelTensors features;  // the head's inputs N3, N4, N5
};

struct TrainOutput {
  LevelTensors raw_maps;  // of the main head
  LevelTensors backbone;  // P3, P4, B5: what ForwardAux starts from
};

// One entry of the state dict. The handle is the network's own tensor: writing to it changes the
// network.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  bool is_parameter;  // else a buffer
};

class Network {
 public:
  // ARGUMENT_INVALID for an unknown size or a class count below 1; OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<Network>> Make(const NetworkConfig& config);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // `images`: (B, 3, H, W), RGB 0..1, of the network's type and device; H and W are multiples
  // of 32. Batch norms use their running statistics unless SetTraining(true). The caller switches
  // gradients off (c10::InferenceMode).
  EvalOutput ForwardEval(const at::Tensor& images);
  // The main head's raw maps, without decoding.
  TrainOutput ForwardTrain(const at::Tensor& images);
  // The auxiliary head's raw maps from the same pass. Needs has_aux().
  LevelTensors ForwardAux(const TrainOutput& output);

  // New networks are in eval mode.
  void SetTraining(bool training);
  bool training() const;
  // Moves every tensor; handles in tensors() stay valid.
  void To(const at::Device& device);
  void To(at::ScalarType dtype);  // floating tensors only

  // Attaches the auxiliary branch at the present class count, freshly initialised. It must not be
  // there yet.
  void AttachAux(uint64_t seed);
  // What training on a dataset with another class count does: fresh final class convolutions, tower
  // width kept, and all biases of the head back to their initial values. Not with the auxiliary
  // branch attached.
  void ReplaceClassCount(int class_count, uint64_t seed);

  // In state-dict order: backbone, neck, head, then the auxiliary branch.
  const std::vector<NamedTensor>& tensors() const;
  std::string size() const;
  int class_count() const;
  int class_tower_width() const;
  bool has_aux() const;
  // Elements of the trainable tensors without the auxiliary branch.
  int64_t parameter_count() const;

 private:
  struct Impl;
  explicit Network(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace libreyolo::yolo9
