#include "server/worker/workload/train_window.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::worker {
namespace {

// What the command line takes.
constexpr int64_t kMinSteps = 2;

std::string FewerSteps(const TrainWindow& window, int64_t batches) {
  const int64_t steps = batches - window.warmup;
  if (steps >= kMinSteps) {
    return absl::StrCat("fewer steps: --steps ", steps,
                        " is what this dataset allows with --warmup ", window.warmup);
  }
  if (batches >= kMinSteps) {
    const int64_t warmup = batches - kMinSteps;
    return absl::StrCat("fewer steps: --steps ", kMinSteps, " --warmup ", warmup,
                        " is what this dataset allows");
  }
  return absl::StrCat("fewer steps alone do not help: this dataset holds ", batches,
                      batches == 1 ? " batch" : " batches", " and at least ", kMinSteps,
                      " are measured");
}

}  // namespace

int64_t LargestBatch(const TrainWindow& window) {
  const int64_t iterations = int64_t{window.warmup} + window.steps;
  return iterations <= 0 ? 0 : window.image_count / iterations;
}

absl::Status CheckWindow(const TrainWindow& window, int batch) {
  const int64_t iterations = int64_t{window.warmup} + window.steps;
  const int64_t needed = iterations * batch;
  if (window.image_count >= needed) return absl::OkStatus();
  const int64_t fitting = LargestBatch(window);
  std::vector<std::string> hints = {absl::StrCat("a larger dataset: ", needed, " images or more"),
                                    FewerSteps(window, window.image_count / batch)};
  hints.push_back(fitting > 0 ? absl::StrCat("a smaller batch: --batch ", fitting, " would fit")
                              : absl::StrCat("a smaller batch alone does not help: the window has ",
                                             iterations, " iterations"));
  return MakeError(reason::kWindowNotFilled,
                   absl::StrCat("the dataset is too small for the measured window: (warmup ",
                                window.warmup, " + steps ", window.steps, ") x batch ", batch,
                                " = ", needed, " images, and it has ", window.image_count),
                   std::move(hints));
}

}  // namespace libreyolo::worker
