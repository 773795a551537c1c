// What limits a step, in one word with its reason in numbers and the levers to pull: the peer's
// table with its faults mended. Overlapping streams are no memory pressure; a loader that a busy
// GPU hides is no bottleneck; the stage that is called dominant is the largest; a CPU profile gets
// a CPU verdict. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/analysis/profile.h"

namespace libreyolo::analysis {

inline constexpr char kBoundMemory[] = "memory-pressure";
inline constexpr char kBoundDataloader[] = "dataloader";
inline constexpr char kBoundCompute[] = "compute";
inline constexpr char kBoundHost[] = "host / launch";
inline constexpr char kBoundPostprocess[] = "nms / postprocess";
inline constexpr char kBoundPreprocess[] = "preprocess";
inline constexpr char kBoundInference[] = "inference";
inline constexpr char kBoundNotRecorded[] = "GPU not recorded";
inline constexpr char kBoundUnknown[] = "unknown";
inline constexpr char kBoundMixed[] = "mixed";

// Thresholds of the contract's model.
inline constexpr double kBusyGpuUtil = 0.8;
inline constexpr double kDataloadShare = 0.2;
inline constexpr double kStageShare = 0.35;
inline constexpr int kPressureAllocs = 5;  // device allocations per step

struct VerdictInput {
  bool inference = false;
  GpuState gpu = GpuState::kUnknown;
  std::optional<double> step_ms;
  bool of_recording = false;  // no steps: `step_ms` and `dataload_ms` are of the whole recording
  std::optional<double> dataload_ms;
  std::optional<double> gpu_util;
  std::optional<double> host_overhead_ms;
  double kernels_per_step = 0;
  double mean_kernel_us = 0;
  int64_t copies = 0;  // and fills of memory by the GPU
  double device_allocs_per_step = 0;
  int64_t launches_without_gpu = 0;  // launch calls, when the GPU was not recorded
  std::string recorder_message;      // what the profiler said about it
  std::vector<std::pair<std::string, double>> stages_ms;  // host time per phase, in order
  std::vector<std::pair<std::string, double>> top_ops;    // name, share of self time in per cent
};

struct Verdict {
  std::string bound;
  std::string why;
  std::vector<std::string> levers;
};

Verdict DecideVerdict(const VerdictInput& input);

}  // namespace libreyolo::analysis
