#include "common/analysis/summary.h"

#include <algorithm>

#include "common/analysis/profile_extras.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/profile_metrics.h"

namespace libreyolo::analysis {
namespace {

constexpr size_t kTopKernels = 8;
constexpr size_t kTopOps = 5;

// Shares of host time per phase: the stages of inference, else the phases' wall times.
std::vector<SummaryReport::PhaseShare> SharesOf(const Profile& profile) {
  std::vector<SummaryReport::PhaseShare> shares;
  if (profile.stages_ms.has_value()) {
    for (const auto& [name, ms] : *profile.stages_ms) shares.push_back({name, ms, 0});
  } else {
    for (const PhaseRow& row : profile.phases) {
      if (row.wall_ms_per_step.has_value()) shares.push_back({row.phase, *row.wall_ms_per_step, 0});
    }
  }
  double sum = 0;
  for (const auto& share : shares) sum += share.ms;
  for (auto& share : shares) share.ratio = sum > 0 ? share.ms / sum : 0;
  return shares;
}

std::vector<OpRow> TopOpsOf(const Profile& profile) {
  std::vector<OpRow> rows = profile.ops;  // the file's order is by self time in ours
  if (rows.size() > kTopOps) rows.resize(kTopOps);
  return rows;
}

void FillGpu(const Profile& profile, SummaryReport& report) {
  report.gpu_util = profile.gpu_util;
  report.gpu_util_raw = profile.gpu_util_raw;
  report.gpu_busy_ms_per_step = profile.gpu_busy_ms_per_step;
  report.mean_kernel_us = profile.mean_kernel_us;
  report.kernels_per_step = profile.kernels_per_step;
  if (profile.gpu != GpuState::kNotRecorded) report.unique_kernels = profile.unique_kernels;
  report.memcpy_ms_per_step = profile.memcpy_ms_per_step;
  report.tensorcore_pct = profile.tensorcore_pct;
  report.peak_vram_mb = profile.peak_vram_mb;
  report.host_overhead_ms_per_step = profile.host_overhead_ms_per_step;
  report.launches_per_step = profile.launches_per_step;
  report.exact_kernels_per_step = profile.exact.kernels_per_step;
  report.exact_launches_per_step = profile.exact.launches_per_step;
  report.cuda_mallocs_per_step = profile.cuda_mallocs_per_step;
}

template <typename Rows>
JsonValue ListOf(const Rows& rows) {
  JsonValue::Array items;
  for (const auto& row : rows) items.push_back(RowToJson(row));
  return JsonValue(std::move(items));
}

const char* GpuWord(GpuState state) {
  switch (state) {
    case GpuState::kRecorded:
      return "recorded";
    case GpuState::kNone:
      return "none";
    case GpuState::kNotRecorded:
      return "not recorded";
    case GpuState::kUnknown:
      break;
  }
  return "unknown";
}

void AppendOwn(const SummaryReport& report, JsonValue& json) {
  const auto add = [&](const char* key, JsonValue value) {
    json.object().emplace_back(key, std::move(value));
  };
  if (report.img_per_s_n.has_value()) {
    add("img_per_s_std", ToJson(report.img_per_s_std));
    add("img_per_s_n", ToJson(report.img_per_s_n));
  }
  add("gpu", GpuWord(report.gpu));
  if (report.bound_stored.has_value()) add("bound_stored", *report.bound_stored);
  add("levers", JsonValue(JsonValue::Array(report.levers.begin(), report.levers.end())));
  JsonValue::Array shares;
  for (const auto& share : report.phase_shares) {
    JsonValue& item = shares.emplace_back(JsonValue::Object{});
    item.Set("phase", share.phase);
    item.Set("ms", share.ms);
    item.Set("ratio", share.ratio);
  }
  add("phase_shares", JsonValue(std::move(shares)));
  if (!report.devices.empty()) add("devices", DevicesToJson(report.devices));
  if (report.queue_delay.has_value()) add("queue_delay", QueueDelayToJson(*report.queue_delay));
  if (report.on_cpu) {
    add("threads", ToJson(report.threads));
    add("peak_rss_mb", ToJson(report.peak_rss_mb));
    add("top_ops", ListOf(report.top_ops));
  }
  if (report.tracing_overhead_ratio.has_value()) {
    add("tracing_overhead_ratio", *report.tracing_overhead_ratio);
  }
  if (report.validity != Validity::kUnknown) add("validity", Name(report.validity));
  add("findings", FindingsToJson(report.findings));
}

}  // namespace

SummaryReport Summarize(const Profile& profile) {
  SummaryReport report;
  report.trace = profile.trace.value_or("");
  report.model = profile.model;
  report.mode = ModeOf(profile);
  report.device = ConfigText(profile, "device");
  report.device_name = ConfigText(profile, "device_name");
  report.on_cpu = IsCpuProfile(profile);
  report.gpu = report.on_cpu ? GpuState::kNone : profile.gpu;
  report.bound = profile.bound;
  report.bound_why = profile.bound_why;
  report.bound_stored = profile.bound_stored;
  report.levers = profile.levers;
  report.step_ms = profile.step_ms;
  report.img_per_s = profile.img_per_s;
  report.img_per_s_std = profile.img_per_s_std;
  report.img_per_s_n = profile.img_per_s_n;
  report.img_per_s_trials = profile.img_per_s_trials;
  report.latency = profile.latency;
  if (profile.stages_ms.has_value()) report.stages_ms = *profile.stages_ms;
  report.dataload_ms = profile.dataload_ms;
  report.dataload_frac = profile.dataload_frac;
  if (!report.on_cpu) FillGpu(profile, report);
  report.memory_pressure = profile.memory_pressure;
  report.window_wall_ms = profile.window_wall_ms;
  report.window_real_steps = profile.window_real_steps;
  report.devices = profile.devices;
  report.queue_delay = profile.queue_delay;
  report.categories = profile.categories;
  report.phases = profile.phases;
  report.top_kernels = profile.kernels;
  if (report.top_kernels.size() > kTopKernels) report.top_kernels.resize(kTopKernels);
  if (const std::optional<double> threads = ConfigNumber(profile, "threads")) {
    report.threads = static_cast<int64_t>(*threads);
  } else if (profile.environment.has_value()) {
    report.threads = profile.environment->threads;
  }
  report.peak_rss_mb = profile.peak_rss_mb;
  report.phase_shares = SharesOf(profile);
  report.top_ops = TopOpsOf(profile);
  report.validity = profile.validity;
  report.findings = profile.findings;
  if (profile.tracing.has_value()) report.tracing_overhead_ratio = profile.tracing->ratio;
  report.config = profile.config;
  report.untraced = profile.untraced_layout;
  return report;
}

JsonValue ToJson(const SummaryReport& report) {
  JsonValue json{JsonValue::Object{}};
  const auto add = [&](const char* key, JsonValue value) {
    json.object().emplace_back(key, std::move(value));
  };
  const bool inference = report.latency.has_value() || report.mode == "inference";
  add("trace", report.trace.empty() ? JsonValue() : JsonValue(report.trace));
  if (inference) add("mode", "inference");
  add("model", ToJson(report.model));
  add("config", report.config);
  add("bound", report.bound);
  add("bound_why", report.bound_why);
  add("step_ms", ToJson(report.step_ms));
  add("img_per_s", ToJson(report.img_per_s));
  if (report.latency.has_value()) add("latency", LatencyToJson(*report.latency));
  if (!report.stages_ms.empty()) {
    JsonValue stages{JsonValue::Object{}};
    for (const auto& [name, ms] : report.stages_ms) stages.Set(name, ms);
    add("stages_ms", std::move(stages));
  }
  add("gpu_util", ToJson(report.gpu_util));
  add("gpu_busy_ms_per_step", ToJson(report.gpu_busy_ms_per_step));
  add("mean_kernel_us", ToJson(report.mean_kernel_us));
  add("kernels_per_step", ToJson(report.kernels_per_step));
  add("unique_kernels", ToJson(report.unique_kernels));
  add("memcpy_ms_per_step", ToJson(report.memcpy_ms_per_step));
  add("tensorcore_pct", ToJson(report.tensorcore_pct));
  add("peak_vram_mb", ToJson(report.peak_vram_mb));
  add("dataload_ms", ToJson(report.dataload_ms));
  add("dataload_frac", ToJson(report.dataload_frac));
  add("host_overhead_ms_per_step", ToJson(report.host_overhead_ms_per_step));
  add("launches_per_step", ToJson(report.launches_per_step));
  add("memory_pressure", report.memory_pressure);
  add("cuda_mallocs_per_step", ToJson(report.cuda_mallocs_per_step));
  add("gpu_util_raw", ToJson(report.gpu_util_raw));
  JsonValue window{JsonValue::Object{}};
  window.Set("wall_ms", report.window_wall_ms);
  window.Set("real_steps", report.window_real_steps);
  add("window", std::move(window));
  add("categories", ListOf(report.categories));
  JsonValue::Array phases_gpu;
  if (!report.untraced) {
    for (const PhaseRow& row : report.phases) {
      JsonValue& item = phases_gpu.emplace_back(JsonValue::Object{});
      item.Set("phase", row.phase);
      item.Set("gpu_ms_per_step", report.on_cpu ? JsonValue() : ToJson(row.gpu_ms_per_step));
    }
  }
  add("phases_gpu", JsonValue(std::move(phases_gpu)));
  add("top_kernels", ListOf(report.top_kernels));
  AppendOwn(report, json);
  return json;
}

}  // namespace libreyolo::analysis
