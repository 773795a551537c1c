#include "common/analysis/metrics.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::analysis {

bool IsGpuMetric(absl::string_view name) {
  static constexpr const char* kGpuMetrics[] = {
      "gpu_util",         "gpu_util_raw",     "gpu_busy_ms",       "mean_kernel_us",
      "kernels_per_step", "unique_kernels",   "memcpy_ms",         "tensorcore_pct",
      "peak_vram_mb",     "host_overhead_ms", "launches_per_step", "cuda_mallocs_per_step"};
  return std::any_of(std::begin(kGpuMetrics), std::end(kGpuMetrics),
                     [&](const char* metric) { return name == metric; }) ||
         absl::EndsWith(name, "_gpu_ms") || absl::EndsWith(name, "_kernels");
}

std::vector<std::string> ListMetrics(const Profile& profile) {
  std::vector<std::string> names;
  for (const auto& [name, value] : profile.metrics) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::StatusOr<JsonValue> GetMetric(const Profile& profile, absl::string_view name,
                                    absl::string_view shown_path) {
  const auto found = std::find_if(profile.metrics.rbegin(), profile.metrics.rend(),
                                  [&](const auto& metric) { return metric.first == name; });
  if (found == profile.metrics.rend()) {
    return MakeError(reason::kUnknownMetric, absl::StrCat("unknown metric '", name, "'"),
                     {absl::StrCat("run 'profile get ", shown_path, "' to list metrics")},
                     {{"metric", std::string(name)}});
  }
  if (IsCpuProfile(profile) && IsGpuMetric(name)) return JsonValue();
  return found->second;
}

JsonValue MetricNamesToJson(const std::vector<std::string>& names) {
  return JsonValue(JsonValue::Array(names.begin(), names.end()));
}

JsonValue MetricToJson(absl::string_view name, const JsonValue& value) {
  JsonValue json{JsonValue::Object{}};
  json.Set(name, value);
  return json;
}

}  // namespace libreyolo::analysis
