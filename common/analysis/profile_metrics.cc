#include "common/analysis/profile_metrics.h"

#include "absl/strings/str_cat.h"

namespace libreyolo::analysis {

JsonValue ToJson(const std::optional<double>& value) {
  return value.has_value() ? JsonValue(*value) : JsonValue();
}

JsonValue ToJson(const std::optional<int64_t>& value) {
  return value.has_value() ? JsonValue(*value) : JsonValue();
}

JsonValue ToJson(const std::optional<std::string>& value) {
  return value.has_value() ? JsonValue(*value) : JsonValue();
}

namespace {

template <typename Add>
void AddDeviceMemory(const job::DeviceMemory& memory, const Add& add) {
  add("peak_vram_reserved_mb", RoundTo(static_cast<double>(memory.peak_reserved_bytes) / 1e6, 1));
  if (memory.steps <= 0) return;
  const auto steps = static_cast<double>(memory.steps);
  const auto per_step = [&](const char* name, int64_t count) {
    add(name, RoundTo(static_cast<double>(count) / steps, 2));
  };
  per_step("tensor_mallocs_per_step", memory.allocations);
  per_step("tensor_frees_per_step", memory.frees);
  per_step("device_mallocs_per_step", memory.device_allocations);
  per_step("device_frees_per_step", memory.device_frees);
}

// What the peer has no metric for.
template <typename Add>
void AddOwn(const Profile& profile, const Add& add) {
  if (!profile.ours) return;
  if (!profile.untraced_layout) add("gpu_util_raw", ToJson(profile.gpu_util_raw));
  if (profile.latency.has_value()) {
    add("latency_mean_ms", profile.latency->mean_ms);
    add("latency_min_ms", profile.latency->min_ms);
    add("latency_max_ms", profile.latency->max_ms);
    add("latency_n", profile.latency->n);
  }
  if (profile.peak_rss_mb.has_value()) add("peak_rss_mb", *profile.peak_rss_mb);
  if (profile.device_memory.has_value()) AddDeviceMemory(*profile.device_memory, add);
  if (profile.gpu_watch.has_value() && profile.gpu_watch->energy_per_image_j.has_value()) {
    add("energy_per_image_j", *profile.gpu_watch->energy_per_image_j);
  }
  if (profile.tracing.has_value()) add("tracing_overhead_ratio", profile.tracing->ratio);
  add("validity", Name(profile.validity));
}

}  // namespace

std::vector<std::pair<std::string, JsonValue>> MakeMetrics(const Profile& profile) {
  std::vector<std::pair<std::string, JsonValue>> metrics;
  const auto add = [&](absl::string_view name, JsonValue value) {
    metrics.emplace_back(std::string(name), std::move(value));
  };
  const bool traced = !profile.untraced_layout;
  add("img_per_s", ToJson(profile.img_per_s));
  add("step_ms", ToJson(profile.step_ms));
  if (traced) {
    add("dataload_ms", ToJson(profile.dataload_ms));
    add("dataload_frac", ToJson(profile.dataload_frac));
  }
  add("gpu_util", ToJson(profile.gpu_util));
  add("gpu_busy_ms", ToJson(profile.gpu_busy_ms_per_step));
  add("mean_kernel_us", ToJson(profile.mean_kernel_us));
  add("kernels_per_step", ToJson(profile.kernels_per_step));
  add("unique_kernels", profile.unique_kernels);
  if (traced) {
    std::optional<int64_t> ops;
    if (profile.exact.ops_per_step.has_value()) {
      ops = static_cast<int64_t>(*profile.exact.ops_per_step + 1e-9);
    }
    add("ops_per_step", ToJson(ops));
  }
  add("memcpy_ms", ToJson(profile.memcpy_ms_per_step));
  add("tensorcore_pct", ToJson(profile.tensorcore_pct));
  add("peak_vram_mb", ToJson(profile.peak_vram_mb));
  add("host_overhead_ms", ToJson(profile.host_overhead_ms_per_step));
  add("launches_per_step", ToJson(profile.launches_per_step));
  add("cuda_mallocs_per_step", ToJson(profile.cuda_mallocs_per_step));
  add("memory_pressure", profile.memory_pressure);
  add("bound", profile.bound);
  const auto add_phases = [&] {
    for (const PhaseRow& row : profile.phases) {
      if (traced) add(absl::StrCat(row.phase, "_gpu_ms"), ToJson(row.gpu_ms_per_step));
      add(absl::StrCat(row.phase, "_wall_ms"), ToJson(row.wall_ms_per_step));
      if (traced) {
        add(absl::StrCat(row.phase, "_kernels"), ToJson(row.kernels_per_step));
        add(absl::StrCat(row.phase, "_ops"), ToJson(row.ops_per_step));
      }
    }
  };
  if (traced) add_phases();
  if (profile.mode == "inference" && profile.latency.has_value()) {
    add("latency_p50_ms", profile.latency->p50_ms);
    add("latency_p90_ms", profile.latency->p90_ms);
    add("latency_p99_ms", profile.latency->p99_ms);
    add("throughput_img_s", ToJson(profile.img_per_s));
    const auto stage = [&](absl::string_view name) -> JsonValue {
      if (!profile.stages_ms.has_value()) return JsonValue();
      for (const auto& [key, ms] : *profile.stages_ms) {
        if (key == name) return JsonValue(ms);
      }
      return JsonValue();
    };
    add("preprocess_ms", stage("preprocess"));
    add("forward_ms", stage("forward"));
    add("nms_ms", stage("postprocess"));
  }
  if (!traced) add_phases();
  AddOwn(profile, add);
  return metrics;
}

}  // namespace libreyolo::analysis
