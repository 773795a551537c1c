#include "common/analysis/profile_summary.h"

#include <algorithm>

#include "common/analysis/profile_metrics.h"

namespace libreyolo::analysis {
namespace {

constexpr size_t kSummaryKernels = 6;

JsonValue Object() { return JsonValue(JsonValue::Object{}); }

std::optional<double> Rounded(std::optional<double> value, int digits) {
  if (value.has_value()) value = RoundTo(*value, digits);
  return value;
}

// The peer's keys of the config, without ours.
JsonValue MetaOf(const Profile& profile) {
  JsonValue meta = Object();
  for (const auto& [key, value] : profile.config.object()) {
    static constexpr const char* kKeys[] = {"model", "batch",     "imgsz",  "half",
                                            "amp",   "amp_dtype", "device", "conf",
                                            "iou",   "max_det",   "mode",   "workers"};
    if (std::any_of(std::begin(kKeys), std::end(kKeys),
                    [&, name = key](const char* known) { return name == known; })) {
      meta.Set(key, value);
    }
  }
  return meta;
}

JsonValue RealOf(const Profile& profile, bool training) {
  JsonValue real = Object();
  const std::optional<double> step = profile.exact.step_ms;
  const std::optional<double> dataload = profile.dataload_ms;
  real.Set("step_ms", ToJson(Rounded(step, 3)));
  if (training) {
    real.Set("dataload_ms", ToJson(Rounded(dataload, 3)));
    std::optional<double> compute;
    if (step.has_value()) compute = std::max(0.0, *step - dataload.value_or(0));
    real.Set("compute_ms", ToJson(Rounded(compute, 3)));
    real.Set("img_per_s", ToJson(profile.img_per_s));
  } else {
    real.Set("img_per_s", ToJson(profile.img_per_s));
    real.Set("dataload_ms", 0.0);
  }
  real.Set("dataload_frac", training ? ToJson(profile.dataload_frac) : JsonValue(0.0));
  return real;
}

JsonValue AnalysisOf(const Profile& profile) {
  JsonValue analysis = Object();
  analysis.Set("gpu_util", ToJson(profile.gpu_util));
  analysis.Set("gpu_busy_ms_per_step", ToJson(profile.gpu_busy_ms_per_step));
  analysis.Set("mean_kernel_us", ToJson(profile.mean_kernel_us));
  analysis.Set("kernels_per_step", ToJson(profile.kernels_per_step));
  analysis.Set("memcpy_ms_per_step", ToJson(profile.memcpy_ms_per_step));
  analysis.Set("tensorcore_pct", ToJson(profile.tensorcore_pct));
  analysis.Set("cuda_mallocs_per_step", ToJson(profile.cuda_mallocs_per_step));
  analysis.Set("gpu_util_raw", ToJson(profile.gpu_util_raw));
  analysis.Set("memory_pressure", profile.memory_pressure);
  analysis.Set("window_real_steps", profile.window_real_steps);
  JsonValue::Array kernels;
  for (size_t i = 0; i < profile.kernels.size() && i < kSummaryKernels; ++i) {
    const KernelRow& row = profile.kernels[i];
    JsonValue item = Object();
    item.Set("name", row.kernel);
    item.Set("pct", RoundTo(row.pct_of_gpu, 1));
    item.Set("ms", ToJson(Rounded(row.ms_per_step, 3)));
    item.Set("count", ToJson(row.count_per_step));
    kernels.push_back(std::move(item));
  }
  analysis.Set("top_kernels", JsonValue(std::move(kernels)));
  JsonValue::Array categories;
  for (const CategoryRow& row : profile.categories) {
    JsonValue item = Object();
    item.Set("name", row.name);
    item.Set("pct", row.pct);
    item.Set("ms", ToJson(row.ms_per_step));
    categories.push_back(std::move(item));
  }
  analysis.Set("categories", JsonValue(std::move(categories)));
  return analysis;
}

JsonValue LatencyOf(const Latency& latency) {
  JsonValue json = Object();
  json.Set("p50_ms", latency.p50_ms);
  json.Set("p90_ms", latency.p90_ms);
  json.Set("p99_ms", latency.p99_ms);
  json.Set("mean_ms", latency.mean_ms);
  json.Set("min_ms", latency.min_ms);
  json.Set("max_ms", latency.max_ms);
  json.Set("n", latency.n);
  return json;
}

}  // namespace

std::string WriteProfileSummary(const Profile& profile, const job::Measurement& measurement) {
  const bool training = measurement.mode == job::Mode::kTrain;
  JsonValue summary = Object();
  summary.Set("meta", MetaOf(profile));
  if (training) {
    JsonValue window = Object();
    window.Set("warmup", measurement.warmup);
    window.Set("real_steps", static_cast<int64_t>(measurement.latencies_ns.size()));
    window.Set("synced_steps", static_cast<int64_t>(measurement.traced_steps.size()));
    summary.Set("window", std::move(window));
  }
  summary.Set("real", RealOf(profile, training));
  if (training) {
    JsonValue composition = Object();
    double total = 0;
    for (const PhaseRow& row : profile.phases) {
      if (row.phase == "dataload" || row.phase == "unphased" || row.phase == kOtherPhase) continue;
      composition.Set(row.phase, ToJson(row.wall_ms_per_step));
      total += row.wall_ms_per_step.value_or(0);
    }
    summary.Set("composition_ms", std::move(composition));
    summary.Set("composition_total_ms", RoundTo(total, 3));
  } else {
    if (profile.latency.has_value()) summary.Set("latency", LatencyOf(*profile.latency));
    if (profile.stages_ms.has_value()) {
      JsonValue stages = Object();
      for (const auto& [name, ms] : *profile.stages_ms) stages.Set(name, ms);
      summary.Set("stages_ms", std::move(stages));
    }
  }
  summary.Set("bound", profile.bound);
  summary.Set("bound_why", profile.bound_why);
  if (training) {
    summary.Set("trace", ToJson(profile.trace));
    JsonValue analysis = AnalysisOf(profile);
    if (profile.peak_vram_mb.has_value()) analysis.Set("peak_vram_mb", *profile.peak_vram_mb);
    summary.Set("analysis", std::move(analysis));
  } else if (profile.peak_vram_mb.has_value()) {
    JsonValue analysis = Object();
    analysis.Set("peak_vram_mb", *profile.peak_vram_mb);
    summary.Set("analysis", std::move(analysis));
  }
  return summary.ToIndented();
}

}  // namespace libreyolo::analysis
