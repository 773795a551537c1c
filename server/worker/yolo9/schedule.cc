#include "server/worker/yolo9/schedule.h"

#include <algorithm>
#include <cmath>

namespace libreyolo::yolo9 {
namespace {

constexpr double kFirstRate = 1e-4;
constexpr double kFullRate = 0.01;
constexpr double kLastRate = 0.01 * 0.01;
constexpr double kFirstMomentum = 0.8;
constexpr double kFullMomentum = 0.937;
constexpr int64_t kWarmupEpochs = 3;
constexpr double kEmaDecay = 0.9999;
constexpr double kEmaTau = 2000;

}  // namespace

StepSettings SettingsOfStep(const ScheduleOptions& options, int64_t step) {
  const int64_t warmup_steps = kWarmupEpochs * options.steps_per_epoch;
  const double done = static_cast<double>(step) / static_cast<double>(warmup_steps);
  StepSettings settings{kFullRate, kFullMomentum};
  if (step < warmup_steps) {
    settings.momentum = kFirstMomentum + (kFullMomentum - kFirstMomentum) * done;
  }
  if (step <= warmup_steps) {
    settings.learning_rate = kFirstRate + (kFullRate - kFirstRate) * done;
  } else {
    const int64_t decay_steps =
        std::max<int64_t>(1, options.steps_per_epoch * options.epochs - warmup_steps);
    settings.learning_rate = kFullRate - (kFullRate - kLastRate) *
                                             static_cast<double>(step - warmup_steps) /
                                             static_cast<double>(decay_steps);
  }
  return settings;
}

double EmaDecay(int64_t update) {
  return kEmaDecay * (1 - std::exp(-static_cast<double>(update) / kEmaTau));
}

}  // namespace libreyolo::yolo9
