#include "common/analysis/profile_sources.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/trace_figures.h"

namespace libreyolo::analysis {
namespace {

constexpr double kNsPerMs = 1e6;

double MeanMs(const std::vector<int64_t>& values_ns) {
  if (values_ns.empty()) return 0;
  const double sum = std::accumulate(values_ns.begin(), values_ns.end(), 0.0);
  return sum / static_cast<double>(values_ns.size()) / kNsPerMs;
}

// Mean host time per phase over the synchronised steps, in order of first appearance.
std::vector<std::pair<std::string, double>> MeanPhases(const job::Measurement& m) {
  std::vector<std::pair<std::string, double>> means;
  double other_ms = 0;
  for (const job::TracedStep& step : m.traced_steps) {
    int64_t inside_ns = 0;
    for (const auto& phase : step.phases_ns) inside_ns += phase.second;
    other_ms += static_cast<double>(step.duration_ns - inside_ns) / kNsPerMs;
    for (const auto& [name, duration_ns] : step.phases_ns) {
      auto it = means.begin();
      while (it != means.end() && it->first != name) ++it;
      if (it == means.end()) it = means.insert(means.end(), {name, 0.0});
      it->second += static_cast<double>(duration_ns) / kNsPerMs;
    }
  }
  // A training step also does work that belongs to no phase: moving average, losses, schedule.
  if (m.mode == job::Mode::kTrain && !means.empty()) means.emplace_back(kOtherPhase, other_ms);
  for (auto& [name, ms] : means) ms /= static_cast<double>(m.traced_steps.size());
  return means;
}

JsonValue ConfigOf(const job::Measurement& m, const std::string& model) {
  JsonValue config{JsonValue::Object{}};
  config.Set("model", model);
  if (m.mode == job::Mode::kTrain) {
    config.Set("device", m.device);
    config.Set("batch", m.batch);
    config.Set("imgsz", m.imgsz);
    config.Set("amp", m.amp);
    config.Set("amp_dtype", job::Name(m.amp_dtype));
    config.Set("workers", m.workers);
    config.Set("amp_requested", m.amp_requested);
  } else {
    config.Set("batch", m.batch);
    config.Set("imgsz", m.imgsz);
    config.Set("half", m.half);
    config.Set("amp_dtype", job::Name(m.amp_dtype));
    config.Set("device", m.device);
    config.Set("conf", m.conf);
    config.Set("iou", m.iou);
    config.Set("max_det", m.max_det);
    config.Set("mode", "inference");
    config.Set("half_requested", m.half_requested);
  }
  config.Set("imgsz_requested", m.imgsz_requested);
  config.Set("device_name", m.device_name);
  config.Set("threads", m.environment.threads);
  config.Set("warmup", m.warmup);
  config.Set("runs", m.runs);
  config.Set("source", m.source);
  config.Set("source_count", m.source_count);
  return config;
}

std::optional<double> NumberAt(const JsonValue* object, absl::string_view key) {
  const JsonValue* value = object != nullptr ? object->Find(key) : nullptr;
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->number();
}

std::vector<std::pair<std::string, double>> NumbersOf(const JsonValue* object) {
  std::vector<std::pair<std::string, double>> numbers;
  if (object == nullptr || !object->is_object()) return numbers;
  for (const auto& [key, value] : object->object()) {
    if (value.is_number()) numbers.emplace_back(key, value.number());
  }
  return numbers;
}

std::optional<Latency> LatencyOf(const JsonValue* object) {
  if (object == nullptr || !object->is_object()) return std::nullopt;
  Latency latency;
  latency.p50_ms = NumberAt(object, "p50_ms").value_or(0);
  latency.p90_ms = NumberAt(object, "p90_ms").value_or(0);
  latency.p99_ms = NumberAt(object, "p99_ms").value_or(0);
  latency.mean_ms = NumberAt(object, "mean_ms").value_or(0);
  latency.min_ms = NumberAt(object, "min_ms").value_or(0);
  latency.max_ms = NumberAt(object, "max_ms").value_or(0);
  latency.n = static_cast<int64_t>(NumberAt(object, "n").value_or(0));
  return latency;
}

}  // namespace

ProfileSources SourcesOf(const job::Measurement& m) {
  ProfileSources sources;
  sources.inference = m.mode == job::Mode::kInfer;
  sources.model = sources.inference ? m.model.weights : absl::StrCat("YOLOv9-", m.model.size);
  sources.config = ConfigOf(m, *sources.model);
  sources.wall_ms = MeanPhases(m);
  if (!m.latencies_ns.empty()) {
    const double sum_ms = MeanMs(m.latencies_ns) * static_cast<double>(m.latencies_ns.size());
    sources.step_ms = MeanMs(m.latencies_ns);
    if (sum_ms > 0) sources.img_per_s = 1000.0 * static_cast<double>(m.images_processed) / sum_ms;
  }
  if (sources.inference) {
    sources.dataload_ms = 0;
    sources.dataload_frac = 0;
    if (!m.latencies_ns.empty()) sources.latency = SummarizeLatencies(m.latencies_ns);
    sources.stages_ms = sources.wall_ms;
    for (auto& [name, ms] : *sources.stages_ms) ms = RoundTo(ms, 3);
  } else if (!m.dataload_ns.empty()) {
    sources.dataload_ms = MeanMs(m.dataload_ns);
    if (sources.step_ms.value_or(0) > 0) {
      sources.dataload_frac = *sources.dataload_ms / *sources.step_ms;
    }
    // The wait in untraced steps is the true one; a traced step has it only under the tracer.
    bool known = false;
    for (auto& [name, ms] : sources.wall_ms) {
      if (name != "dataload") continue;
      ms = *sources.dataload_ms;
      known = true;
    }
    if (!known) {
      sources.wall_ms.insert(sources.wall_ms.begin(), {"dataload", *sources.dataload_ms});
    }
  }
  if (m.peak_vram_bytes.has_value()) {
    sources.peak_vram_mb = RoundTo(static_cast<double>(*m.peak_vram_bytes) / 1e6, 1);
  }
  return sources;
}

ProfileSources SourcesOf(const JsonValue& summary) {
  ProfileSources sources;
  const JsonValue* meta = summary.Find("meta");
  if (meta != nullptr && meta->is_object()) {
    sources.config = *meta;
    const JsonValue* model = meta->Find("model");
    if (model != nullptr && model->is_string()) sources.model = model->string_value();
    const JsonValue* mode = meta->Find("mode");
    sources.inference = mode != nullptr && mode->is_string() && mode->string_value() == "inference";
  }
  const JsonValue* real = summary.Find("real");
  sources.step_ms = NumberAt(real, "step_ms");
  if (sources.step_ms == 0.0) sources.step_ms.reset();
  sources.img_per_s = NumberAt(real, "img_per_s");
  sources.dataload_ms = NumberAt(real, "dataload_ms");
  sources.dataload_frac = NumberAt(real, "dataload_frac");
  sources.latency = LatencyOf(summary.Find("latency"));
  sources.wall_ms = NumbersOf(summary.Find("composition_ms"));
  if (sources.dataload_ms.has_value() && !sources.inference) {
    sources.wall_ms.insert(sources.wall_ms.begin(), {"dataload", *sources.dataload_ms});
  }
  const JsonValue* stages = summary.Find("stages_ms");
  if (stages != nullptr && stages->is_object()) {
    sources.stages_ms = NumbersOf(stages);
    if (sources.inference) sources.wall_ms = *sources.stages_ms;
  }
  sources.peak_vram_mb = NumberAt(summary.Find("analysis"), "peak_vram_mb");
  const JsonValue* bound = summary.Find("bound");
  if (bound != nullptr && bound->is_string()) sources.bound = bound->string_value();
  return sources;
}

}  // namespace libreyolo::analysis
