// Whether a dataset is large enough for the measured window of a training: warm-up and steps in one
// pass over the data, so that no epoch ends inside it. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace libreyolo::worker {

struct TrainWindow {
  int warmup = 0;
  int steps = 0;
  int64_t image_count = 0;  // of the dataset
};

// The largest batch with which the window fits; 0 when not even a batch of 1 does.
int64_t LargestBatch(const TrainWindow& window);

// WINDOW_NOT_FILLED with the numbers and the three ways out: a dataset of how many images, how many
// steps this one allows, and which batch would fit.
absl::Status CheckWindow(const TrainWindow& window, int batch);

}  // namespace libreyolo::worker
