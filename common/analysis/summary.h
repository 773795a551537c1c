// `summary`: the figures of one step, the verdict, the kernel mix and the costliest rows. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/analysis/profile.h"

namespace libreyolo::analysis {

struct SummaryReport {
  std::string trace;  // the profile's `trace`; empty for null
  std::optional<std::string> model;
  std::string mode;    // "train", "inference" or ""
  std::string device;  // of the config; "" when unknown
  std::string device_name;
  bool on_cpu = false;  // no GPU was used: the GPU figures below are absent
  GpuState gpu = GpuState::kUnknown;

  std::string bound;
  std::string bound_why;
  std::optional<std::string> bound_stored;
  std::vector<std::string> levers;

  std::optional<double> step_ms;
  std::optional<double> img_per_s;
  std::optional<double> img_per_s_std;
  std::optional<int64_t> img_per_s_n;
  std::optional<Latency> latency;
  std::vector<std::pair<std::string, double>> stages_ms;  // inference
  std::optional<double> dataload_ms;
  std::optional<double> dataload_frac;

  std::optional<double> gpu_util;
  std::optional<double> gpu_util_raw;
  std::optional<double> gpu_busy_ms_per_step;
  std::optional<double> mean_kernel_us;
  std::optional<int64_t> kernels_per_step;
  std::optional<int64_t> unique_kernels;
  std::optional<double> memcpy_ms_per_step;
  std::optional<double> tensorcore_pct;
  std::optional<double> peak_vram_mb;
  std::optional<double> host_overhead_ms_per_step;
  std::optional<int64_t> launches_per_step;
  std::optional<double> exact_kernels_per_step;  // where the trace was read
  std::optional<double> exact_launches_per_step;
  std::optional<int64_t> cuda_mallocs_per_step;
  bool memory_pressure = false;
  double window_wall_ms = 0;
  int64_t window_real_steps = 0;
  std::vector<CategoryRow> categories;
  std::vector<PhaseRow> phases;
  std::vector<KernelRow> top_kernels;  // at most eight
  std::vector<DeviceFigures> devices;  // ours, as is `queue_delay`; empty in the peer's profiles
  std::optional<QueueDelay> queue_delay;

  // For a CPU profile: what stands in place of the GPU's lines.
  std::optional<int64_t> threads;
  std::optional<double> peak_rss_mb;
  struct PhaseShare {
    std::string phase;
    double ms = 0;
    double ratio = 0;  // of the phases' sum
  };
  std::vector<PhaseShare> phase_shares;
  std::vector<OpRow> top_ops;  // at most five, by self time where it is known

  Validity validity = Validity::kUnknown;
  std::vector<job::Finding> findings;
  std::optional<double> tracing_overhead_ratio;
  std::vector<double> img_per_s_trials;

  JsonValue config;
  bool untraced = false;  // no trace was recorded
};

SummaryReport Summarize(const Profile& profile);

// The `--json` document: the peer's keys in its order (of those that exist), then ours.
JsonValue ToJson(const SummaryReport& report);

}  // namespace libreyolo::analysis
