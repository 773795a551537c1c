// What a worker runs: one trial of a job, measured. The process prepares itself first (device
// libraries, threads), then builds one workload and runs it once, on the main thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/job/measurement.h"
#include "server/worker/capture/activity_source.h"
#include "server/worker/capture/capture_clock.h"
#include "server/worker/sampling/gpu_sampler.h"
#include "server/worker/workload/environment.h"
#include "server/worker_link/worker_plan.h"

namespace libreyolo::worker {

// Hears how far a workload is, between iterations and never inside a timed region. Must be quick:
// what it costs delays the next iteration.
class WorkloadObserver {
 public:
  virtual ~WorkloadObserver() = default;
  virtual void OnStage(worker_link::WorkerStage stage, absl::string_view detail) = 0;
  // After iteration `done` of `total` in "warm-up", "measure" or "trace".
  virtual void OnProgress(absl::string_view stage, int64_t done, int64_t total) = 0;
  // True once the job is to end; the workload then fails with reason CANCELLED.
  virtual bool IsCancelled() const = 0;
};

// What a workload gets from outside. References outlive it.
struct WorkloadDeps {
  WorkloadObserver& observer;
  ActivitySource& activities;
  const HostProbe& host;
  ClockKind clock = ClockKind::kClockGettime;
  GpuSampler* gpu = nullptr;  // watches a CUDA job's device; null on the CPU
};

class Workload {
 public:
  virtual ~Workload() = default;
  // Measures, and with a trace writes profile_trace.json into the plan's staging folder. Every
  // error has a reason; nothing is measured half: without an OK there is no result.
  virtual absl::StatusOr<job::Measurement> Run() = 0;
};

// The name of the trace in the staging folder.
inline constexpr char kTraceFileName[] = "profile_trace.json";

}  // namespace libreyolo::worker
