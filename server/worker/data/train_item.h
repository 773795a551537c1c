// Makes one training example: mosaic, scale and shift, colours, mirror, targets. The rules and the
// order of the draws are the reference's (fixtures: augment.json).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/worker/data/augment_draws.h"
#include "server/worker/data/dataset.h"

namespace libreyolo::data {

// Rows of an example's targets; more boxes are cut off, as in the reference.
inline constexpr int kMaxTargets = 300;
inline constexpr int kTargetFields = 5;  // class, x1, y1, x2, y2 as parts of the input's size

struct AugmentOptions {
  double mosaic_probability = 1.0;
  double flip_probability = 0.5;
  double translate = 0.1;  // part of the input's size, to either side
  double scale_min = 0.5;
  double scale_max = 1.5;
};

// Which pictures turned out broken when they were decoded. Shared by all threads of a loader.
class BrokenImages {
 public:
  explicit BrokenImages(size_t item_count) : is_broken_(item_count) {}

  bool IsBroken(size_t index) const { return is_broken_[index].load(std::memory_order_relaxed); }
  // Counts a picture once; `why` of the first few is kept.
  void Mark(size_t index, const std::string& why);
  int count() const { return count_.load(); }
  std::vector<std::string> examples() const;

 private:
  std::vector<std::atomic<bool>> is_broken_;
  std::atomic<int> count_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> examples_;  // guarded by mutex_
};

// One for each thread; owns decoder and buffers.
class TrainItemMaker {
 public:
  // Both outlive the maker.
  TrainItemMaker(const Dataset& dataset, const AugmentOptions& options, BrokenImages& broken);
  ~TrainItemMaker();

  // Fills `chw` (3 * input height * input width floats in [0, 1]) and `targets` (kMaxTargets rows;
  // unused ones have class -1 and zeros). A picture that cannot be decoded is marked and the next
  // usable one takes its place.
  //   DATASET_INVALID  no picture of the dataset can be decoded
  absl::Status Make(size_t index, AugmentDraws& draws, float* chw, float* targets);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace libreyolo::data
