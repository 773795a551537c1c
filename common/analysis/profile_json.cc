#include "common/analysis/profile_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/analysis/profile_extras.h"
#include "common/analysis/profile_metrics.h"

namespace libreyolo::analysis {
namespace {

constexpr size_t kTopKernels = 8;

template <typename Rows>
JsonValue RowsToJson(const Rows& rows, size_t limit = SIZE_MAX) {
  JsonValue::Array items;
  for (size_t i = 0; i < rows.size() && i < limit; ++i) items.push_back(RowToJson(rows[i]));
  return JsonValue(std::move(items));
}

template <typename Groups>
JsonValue GroupsToJson(const Groups& groups) {
  JsonValue::Object members;
  for (const auto& [name, rows] : groups) members.emplace_back(name, RowsToJson(rows));
  return JsonValue(std::move(members));
}

// Members in the order of a document; later additions go to its end.
class Document {
 public:
  void Add(const char* key, JsonValue value) { members_.emplace_back(key, std::move(value)); }
  template <typename T>
  void Add(const char* key, const std::optional<T>& value) {
    Add(key, ToJson(value));
  }
  JsonValue Take() { return JsonValue(std::move(members_)); }

 private:
  JsonValue::Object members_;
};

JsonValue StagesToJson(const Profile& profile) {
  JsonValue::Object members;
  for (const auto& [name, ms] : *profile.stages_ms) members.emplace_back(name, JsonValue(ms));
  return JsonValue(std::move(members));
}

void AddHead(const Profile& profile, Document& out) {
  out.Add("schema", profile.schema);
  if (profile.untraced_layout && profile.mode.has_value()) out.Add("mode", *profile.mode);
  out.Add("trace", profile.trace);
  out.Add("model", profile.model);
  out.Add("config", profile.config);
  out.Add("bound", profile.bound);
  out.Add("bound_why", profile.bound_why);
  out.Add("step_ms", profile.step_ms);
  out.Add("img_per_s", profile.img_per_s);
  out.Add("dataload_ms", profile.dataload_ms);
  out.Add("dataload_frac", profile.dataload_frac);
  out.Add("gpu_util", profile.gpu_util);
  out.Add("gpu_util_raw", profile.gpu_util_raw);
  out.Add("memory_pressure", profile.memory_pressure);
  out.Add("cuda_mallocs_per_step", profile.cuda_mallocs_per_step);
  out.Add("host_overhead_ms_per_step", profile.host_overhead_ms_per_step);
  out.Add("launches_per_step", profile.launches_per_step);
  out.Add("gpu_busy_ms_per_step", profile.gpu_busy_ms_per_step);
  out.Add("mean_kernel_us", profile.mean_kernel_us);
  out.Add("kernels_per_step", profile.kernels_per_step);
  out.Add("unique_kernels", profile.unique_kernels);
  out.Add("memcpy_ms_per_step", profile.memcpy_ms_per_step);
  out.Add("tensorcore_pct", profile.tensorcore_pct);
  out.Add("peak_vram_mb", profile.peak_vram_mb);
  out.Add("window", WindowToJson(profile));
}

void AddMode(const Profile& profile, Document& out) {
  if (!profile.untraced_layout && profile.mode.has_value()) out.Add("mode", *profile.mode);
  if (profile.latency.has_value()) out.Add("latency", LatencyToJson(*profile.latency));
  if (profile.stages_ms.has_value()) out.Add("stages_ms", StagesToJson(profile));
}

}  // namespace

JsonValue RowToJson(const KernelRow& row) {
  Document out;
  out.Add("kernel", row.kernel);
  out.Add("raw_name", row.raw_name);
  out.Add("category", row.category);
  out.Add("tensorcore", row.tensorcore);
  out.Add("ms_per_step", row.ms_per_step);
  out.Add("pct_of_gpu", row.pct_of_gpu);
  out.Add("count_per_step", row.count_per_step);
  if (row.total_ns.has_value()) {
    out.Add("total_ns", *row.total_ns);
    out.Add("total_count", row.total_count);
    if (row.exclusive_ns.has_value()) out.Add("exclusive_ns", *row.exclusive_ns);
  }
  return out.Take();
}

JsonValue RowToJson(const OpRow& row) {
  Document out;
  out.Add("op", row.op);
  out.Add("ms_per_step", row.ms_per_step);
  out.Add("pct_of_cpu_ops", row.pct_of_cpu_ops);
  out.Add("count_per_step", row.count_per_step);
  if (row.self_ns.has_value()) {
    out.Add("self_ms_per_step", row.self_ms_per_step);
    out.Add("self_ns", *row.self_ns);
    out.Add("total_ns", row.total_ns);
    out.Add("total_count", row.total_count);
  }
  return out.Take();
}

JsonValue RowToJson(const PhaseRow& row) {
  Document out;
  out.Add("phase", row.phase);
  out.Add("gpu_ms_per_step", row.gpu_ms_per_step);
  out.Add("wall_ms_per_step", row.wall_ms_per_step);
  out.Add("kernels_per_step", row.kernels_per_step);
  out.Add("ops_per_step", row.ops_per_step);
  out.Add("unique_kernels", row.unique_kernels);
  if (row.recording_ops.has_value()) {
    out.Add("recording_gpu_ns", row.recording_gpu_ns);
    out.Add("recording_wall_ns", row.recording_wall_ns);
    out.Add("recording_kernels", row.recording_kernels);
    out.Add("recording_ops", row.recording_ops);
  }
  return out.Take();
}

JsonValue RowToJson(const CategoryRow& row) {
  Document out;
  out.Add("name", row.name);
  out.Add("pct", row.pct);
  out.Add("ms_per_step", row.ms_per_step);
  if (row.exclusive_ns.has_value()) {
    out.Add("exclusive_ns", *row.exclusive_ns);
    out.Add("launches", row.launches);
  }
  return out.Take();
}

JsonValue LatencyToJson(const Latency& latency) {
  Document out;
  out.Add("p50_ms", latency.p50_ms);
  out.Add("p90_ms", latency.p90_ms);
  out.Add("p99_ms", latency.p99_ms);
  out.Add("mean_ms", latency.mean_ms);
  out.Add("min_ms", latency.min_ms);
  out.Add("max_ms", latency.max_ms);
  out.Add("n", latency.n);
  if (latency.has_limits) {
    const auto limits = [](const Latency::Limits& values) {
      return JsonValue(JsonValue::Array{ToJson(values.low_ms), ToJson(values.high_ms)});
    };
    out.Add("p50_limits_ms", limits(latency.p50_limits));
    out.Add("p90_limits_ms", limits(latency.p90_limits));
    out.Add("p99_limits_ms", limits(latency.p99_limits));
  }
  return out.Take();
}

JsonValue WindowToJson(const Profile& profile) {
  Document out;
  out.Add("wall_ms", profile.window_wall_ms);
  out.Add("real_steps", profile.window_real_steps);
  return out.Take();
}

JsonValue PhasesGpuToJson(const Profile& profile) {
  JsonValue::Array items;
  if (!profile.untraced_layout) {
    for (const PhaseRow& row : profile.phases) {
      Document item;
      item.Add("phase", row.phase);
      item.Add("gpu_ms_per_step", row.gpu_ms_per_step);
      items.push_back(item.Take());
    }
  }
  return JsonValue(std::move(items));
}

JsonValue ProfileToJson(const Profile& profile) {
  Document out;
  AddHead(profile, out);
  if (profile.untraced_layout) AddMode(profile, out);
  out.Add("metrics", JsonValue(JsonValue::Object(profile.metrics.begin(), profile.metrics.end())));
  out.Add("categories", RowsToJson(profile.categories));
  out.Add("phases", RowsToJson(profile.phases));
  out.Add("phases_gpu", PhasesGpuToJson(profile));
  out.Add("kernels_by_phase", GroupsToJson(profile.kernels_by_phase));
  out.Add("ops_by_phase", GroupsToJson(profile.ops_by_phase));
  out.Add("top_kernels", RowsToJson(profile.kernels, kTopKernels));
  out.Add("kernels", RowsToJson(profile.kernels));
  out.Add("ops", RowsToJson(profile.ops));
  if (!profile.untraced_layout) AddMode(profile, out);
  if (profile.img_per_s_n.has_value()) {
    out.Add("img_per_s_std", profile.img_per_s_std);
    out.Add("img_per_s_n", profile.img_per_s_n);
    JsonValue::Array trials(profile.img_per_s_trials.begin(), profile.img_per_s_trials.end());
    out.Add("img_per_s_trials", JsonValue(std::move(trials)));
  }
  if (!profile.aggregation.is_null()) out.Add("aggregation", profile.aggregation);
  JsonValue json = out.Take();
  if (profile.ours) AppendExtras(profile, json);
  for (const auto& [key, value] : profile.unknown.object()) {
    json.object().emplace_back(key, value);
  }
  return json;
}

std::string WriteProfileJson(const Profile& profile) { return ProfileToJson(profile).ToCompact(); }

}  // namespace libreyolo::analysis
