// A profile: what every reader answers from. Members with a name of the Python peer's profile.json
// keep its meaning, unit and rounding; the others are ours and unrounded. Plain data.
//
// An absent figure cannot be known (no step markers, a GPU that was not recorded). On a profile
// without GPU work (gpu == kNone) the GPU figures are 0 here and in profile.json, as the peer's
// programs need numbers there; the readers show them as null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/analysis/trace_figures.h"
#include "common/job/measurement.h"
#include "common/json/json_value.h"

namespace libreyolo::analysis {

inline constexpr char kProfileSchema[] = "libreyolo.profile.analysis/v1";
inline constexpr char kProfileSchemaFamily[] = "libreyolo.profile.analysis";

struct KernelRow {
  std::string kernel;    // a short name for people
  std::string raw_name;  // whole in ours; the peer keeps 90 characters
  std::string category;
  bool tensorcore = false;
  std::optional<double> ms_per_step;  // 4 decimals
  double pct_of_gpu = 0;              // of kernel time, 2 decimals
  std::optional<int64_t> count_per_step;

  // Ours.
  std::optional<int64_t> total_ns;  // in the window
  std::optional<int64_t> total_count;
  // What the device's busy time loses without this kernel; less than its time where others overlap.
  std::optional<int64_t> exclusive_ns;
};

struct OpRow {
  std::string op;
  std::optional<double> ms_per_step;  // with nested operations, 4 decimals
  // Ours: of self time. In the peer's profiles: of the sum of ms_per_step, which counts nested
  // operations several times. 2 decimals.
  double pct_of_cpu_ops = 0;
  std::optional<int64_t> count_per_step;

  // Ours.
  std::optional<double> self_ms_per_step;  // without nested operations, 4 decimals
  std::optional<int64_t> total_ns;
  std::optional<int64_t> self_ns;
  std::optional<int64_t> total_count;
};

struct PhaseRow {
  std::string phase;
  std::optional<double> gpu_ms_per_step;   // 3 decimals
  std::optional<double> wall_ms_per_step;  // host time, 2 decimals (3 without a trace)
  std::optional<int64_t> kernels_per_step;
  std::optional<int64_t> ops_per_step;
  int64_t unique_kernels = 0;

  // Ours: of the whole recording, where it has no steps to divide by.
  std::optional<int64_t> recording_gpu_ns;
  std::optional<int64_t> recording_wall_ns;
  std::optional<int64_t> recording_kernels;
  std::optional<int64_t> recording_ops;
};

struct CategoryRow {
  std::string name;
  double pct = 0;                     // of kernel time, 1 decimal
  std::optional<double> ms_per_step;  // 3 decimals

  // Ours.
  std::optional<int64_t> exclusive_ns;  // as in KernelRow
  std::optional<int64_t> launches;      // calls that launched nothing else
};

struct Latency {
  double p50_ms = 0;  // all with 3 decimals
  double p90_ms = 0;
  double p99_ms = 0;
  double mean_ms = 0;
  double min_ms = 0;
  double max_ms = 0;
  int64_t n = 0;

  // Ours: 95 % limits from order statistics; a missing one does not exist for this n.
  struct Limits {
    std::optional<double> low_ms;
    std::optional<double> high_ms;
  };
  bool has_limits = false;
  Limits p50_limits;
  Limits p90_limits;
  Limits p99_limits;
};

enum class GpuState {
  kUnknown,      // the profile does not say
  kRecorded,     // kernels were recorded
  kNone,         // no GPU was used
  kNotRecorded,  // it was used, but the profiler did not see it
};

enum class Validity { kUnknown, kValid, kSuspect, kInvalid };

// "VALID", ...; "" for kUnknown.
const char* Name(Validity validity);

// One trial of a repeat, unrounded: what intervals are made of.
struct TrialFigures {
  double img_per_s = 0;
  double step_ms = 0;
};

// Unrounded figures under the rounded ones.
struct ExactFigures {
  std::optional<double> step_ms;
  std::optional<double> img_per_s;
  std::optional<double> gpu_busy_ms;
  std::optional<double> gpu_sum_ms;
  std::optional<double> kernels_per_step;
  std::optional<double> launches_per_step;
  std::optional<double> ops_per_step;
  std::optional<double> host_wait_ms;  // inside synchronising calls
  std::optional<double> graph_launches_per_step;
};

// What the tracer cost: measured, not estimated.
struct TracingCost {
  double traced_step_ms = 0;
  double untraced_step_ms = 0;
  double ratio = 0;  // traced over untraced
  int64_t op_records = 0;
  int64_t dropped_records = 0;
};

struct Profile {
  std::string schema = kProfileSchema;
  std::optional<std::string> trace;
  std::optional<std::string> model;
  JsonValue config{JsonValue::Object{}};
  std::string bound;
  std::string bound_why;
  std::optional<double> step_ms;
  std::optional<double> img_per_s;
  std::optional<double> dataload_ms;
  std::optional<double> dataload_frac;
  std::optional<double> gpu_util;      // union over step, at most 1
  std::optional<double> gpu_util_raw;  // sum over step: above 1 where kernels overlap
  bool memory_pressure = false;
  std::optional<int64_t> cuda_mallocs_per_step;  // of device memory
  std::optional<double> host_overhead_ms_per_step;
  std::optional<int64_t> launches_per_step;  // calls, graphs counted once
  std::optional<double> gpu_busy_ms_per_step;
  std::optional<double> mean_kernel_us;
  std::optional<int64_t> kernels_per_step;
  int64_t unique_kernels = 0;
  std::optional<double> memcpy_ms_per_step;
  std::optional<double> tensorcore_pct;
  std::optional<double> peak_vram_mb;
  double window_wall_ms = 0;
  int64_t window_real_steps = 0;
  std::vector<std::pair<std::string, JsonValue>> metrics;
  std::vector<CategoryRow> categories;
  std::vector<PhaseRow> phases;
  std::vector<std::pair<std::string, std::vector<KernelRow>>> kernels_by_phase;
  std::vector<std::pair<std::string, std::vector<OpRow>>> ops_by_phase;
  std::vector<KernelRow> kernels;
  std::vector<OpRow> ops;
  std::optional<std::string> mode;  // "inference"; the peer writes none for training
  std::optional<Latency> latency;
  std::optional<std::vector<std::pair<std::string, double>>> stages_ms;

  // Of a repeat.
  std::optional<double> img_per_s_std;  // population deviation
  std::optional<int64_t> img_per_s_n;
  std::vector<double> img_per_s_trials;
  JsonValue aggregation;  // null for a single run, and for the peer's infer repeats

  // The peer orders the members of a profile without a trace in another way.
  bool untraced_layout = false;

  // Ours; absent or empty in profiles of the peer.
  bool ours = false;
  std::optional<std::string> job;  // the job that made it
  std::vector<std::string> levers;
  std::optional<std::string> bound_stored;  // the word that our CPU verdict replaced
  GpuState gpu = GpuState::kUnknown;
  Validity validity = Validity::kUnknown;
  std::vector<job::Finding> findings;
  ExactFigures exact;
  std::optional<TracingCost> tracing;
  std::vector<int64_t> latencies_ns;  // untraced; of all trials in a repeat
  std::vector<int64_t> dataload_ns;
  std::vector<DeviceFigures> devices;
  std::optional<Completeness> completeness;
  std::optional<QueueDelay> queue_delay;
  std::optional<job::Environment> environment;
  std::optional<job::GpuWatch> gpu_watch;
  std::optional<job::DeviceMemory> device_memory;
  std::optional<job::ModelInfo> weights;
  std::optional<double> peak_rss_mb;
  std::vector<TrialFigures> trials;

  JsonValue unknown{JsonValue::Object{}};  // members that this version does not know, kept
};

// True when no GPU was used: the GPU figures mean nothing. The peer's profiles say so by
// `device: cpu` in the config and no kernel.
bool IsCpuProfile(const Profile& profile);

// "train", "inference" or "" when the profile does not tell.
std::string ModeOf(const Profile& profile);

// The config's text or number; empty or absent without it.
std::string ConfigText(const Profile& profile, absl::string_view key);
std::optional<double> ConfigNumber(const Profile& profile, absl::string_view key);

}  // namespace libreyolo::analysis
