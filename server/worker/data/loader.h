// Feeds a training: batches of augmented examples, made ahead of time by threads of its own.
//
//   DataLoader loader(dataset, options);
//   LY_ASSIGN_OR_RETURN(const Batch batch, loader.Next());
//
// An epoch is a seeded permutation of the pictures; the last partial batch is dropped. The batches
// do not depend on the number of workers: example k of an epoch is always drawn from the same seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "server/worker/data/dataset.h"
#include "server/worker/data/train_item.h"

namespace libreyolo::data {

// Memory for batches, so that the caller may pin it for a GPU. Freed by the deleter.
using FloatBuffer = std::shared_ptr<float[]>;
using BufferAllocator = std::function<FloatBuffer(size_t float_count)>;

struct LoaderOptions {
  int batch_size = 16;
  // 0: Next() makes the batch itself.
  int worker_count = 8;
  // Batches made ahead of the one being used; at least 1. Examples are handed out one by one, so
  // that all workers share a batch and few batches ahead are enough.
  int prefetch_batch_count = 3;
  uint64_t seed = 0;
  AugmentOptions augment;
  BufferAllocator allocate;           // empty: ordinary memory
  std::function<void()> before_item;  // for tests: called by workers before each example
};

struct Batch {
  int size = 0;
  FloatBuffer images;   // size x 3 x input height x input width
  FloatBuffer targets;  // size x kMaxTargets x kTargetFields
};

// `dataset` and the options' functions outlive the loader. Next() and the rest are for one thread.
class DataLoader {
 public:
  DataLoader(const Dataset& dataset, const LoaderOptions& options);
  // Stops the workers; waits for the examples in work.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // Whole batches in one pass over the data; 0 when the dataset is smaller than a batch.
  int64_t batches_per_epoch() const;

  // The next batch; at the end of an epoch the next one begins. Its buffers are reused once the
  // caller and all copies of the shared pointers let go of them.
  //   WINDOW_NOT_FILLED  the dataset is smaller than a batch
  //   DATASET_INVALID    no picture can be decoded
  absl::StatusOr<Batch> Next();

  // Pictures that turned out broken so far; Next() put others in their place.
  const BrokenImages& broken_images() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace libreyolo::data
