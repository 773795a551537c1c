// `profile infer`: latencies of all runs without any tracer, then a second window that shows where
// the time goes.
//
// 1. Warm-up iterations, discarded.
// 2. The untraced window: `runs` iterations, each timed from start to end. No callback is
//    installed; this is what the reported latencies are.
// 3. The second window: at most 10 iterations and 5 seconds, stages timed apart with the device
//    synchronised after each, ops captured unless the plan says no trace.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/worker/workload/workload.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::worker {

// Errors of Run(): those of InferPipeline and ComputeDevice, and
//   SOURCE_NOT_FOUND   no image at the plan's source
//   ARGUMENT_CONFLICT  half precision on a device that is no GPU
//   STORE_FAILED       the trace cannot be written
//   CANCELLED          the observer said so
std::unique_ptr<Workload> MakeInferWorkload(const worker_link::WorkerPlan& plan,
                                            const WorkloadDeps& deps);

}  // namespace libreyolo::worker
