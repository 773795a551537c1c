// Learning rate, momentum and EMA decay of a training run by step number. Pure.
#pragma once

#include <cstdint>

namespace libreyolo::yolo9 {

struct ScheduleOptions {
  int64_t steps_per_epoch;
  int64_t epochs;
};

struct StepSettings {
  double learning_rate;
  double momentum;
};

// For the optimizer step `step`, counted from 0: three epochs of linear warm-up, then a linear
// decay.
StepSettings SettingsOfStep(const ScheduleOptions& options, int64_t step);

// How much of the average stays at update `update`, counted from 1.
double EmaDecay(int64_t update);

}  // namespace libreyolo::yolo9
