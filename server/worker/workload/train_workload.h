// `profile run`: a short real training, measured.
//
// 1. The dataset is read and checked against the window: warm-up and steps must fit into one pass.
// 2. Warm-up steps, discarded.
// 3. The untraced window: the first half of the steps, each timed from before its batch is fetched
//    to its end, and the wait for the batch inside it. No callback is installed and nothing is
//    synchronised beyond what training does.
// 4. The second window: the other half (at most 25 steps; what is more belongs to the first half),
//    phases timed apart with the device synchronised after each, ops captured.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/worker/workload/workload.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::worker {

// Errors of Run(): those of the dataset's readers, of TrainPipeline and ComputeDevice, and
//   WINDOW_NOT_FILLED  the dataset is too small; hints name what would fit
//   STORE_FAILED       the trace cannot be written
//   CANCELLED          the observer said so
std::unique_ptr<Workload> MakeTrainWorkload(const worker_link::WorkerPlan& plan,
                                            const WorkloadDeps& deps);

}  // namespace libreyolo::worker
