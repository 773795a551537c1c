// From a weights file to a network: what family, size and class count a checkpoint holds, whether
// its metadata, its shapes and the request agree, and its tensors copied into a fresh Network. Safe
// to call from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/yolo9/network.h"

namespace libreyolo::yolo9 {

enum class LetterboxPad { kTopLeft, kCenter };

struct LoadedModel {
  std::unique_ptr<Network> network;  // on the CPU, float32, eval mode
  std::string size;                  // "t", "s", "m", "c"
  int class_count = 0;
  std::vector<std::string> names;  // class_count of them
  LetterboxPad letterbox = LetterboxPad::kTopLeft;
  // The input height and width that a rectangular model was trained with; 0 for all others.
  int input_height = 0;
  int input_width = 0;
  int64_t parameter_count = 0;
  std::vector<std::string> findings;  // sentences about what looked odd but was tolerated
};

// Loads the checkpoint at `path` for inference: tensors of the auxiliary branch are dropped.
// `requested_size` is "" when the user named none: the file decides.
//   WEIGHTS_NOT_FOUND   there is no such file
//   WEIGHTS_UNREADABLE  not a checkpoint that the restricted reader takes (checkpoint.h)
//   WEIGHTS_MISMATCH    another family or task; the request, the metadata and the shapes contradict
//   each other OUT_OF_MEMORY
absl::StatusOr<LoadedModel> LoadModel(const std::string& path, const std::string& requested_size);

// Freshly initialised weights (`--weights random`); `size` "" means "t".
absl::StatusOr<LoadedModel> MakeRandomModel(const std::string& size, int class_count = 80,
                                            uint64_t seed = 0);

struct TrainingOptions {
  int class_count = 0;  // of the dataset; 0 keeps the weights' own
  uint64_t seed = 0;    // of the layers that are made anew
};

// The same for training: the network is in training mode, has the dataset's class count (another
// one than the weights' means fresh final class layers and biases, as Network::ReplaceClassCount
// says), and has the auxiliary branch, with the weights' own tensors where they fit. `path` ""
// starts from random weights of `requested_size`.
absl::StatusOr<LoadedModel> LoadTrainingModel(const std::string& path,
                                              const std::string& requested_size,
                                              const TrainingOptions& options);

}  // namespace libreyolo::yolo9
