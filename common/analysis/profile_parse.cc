// Reading profile.json. The members that the peer always writes must be there and of its type: a
// file that lacks them is not a profile.
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/analysis/profile_extras.h"
#include "common/analysis/profile_json.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::analysis {
namespace {

// Reads members of one object; the first fault stops it and is kept.
class Members {
 public:
  Members(const JsonValue& json, std::string path, absl::Status& status)
      : json_(json), path_(std::move(path)), status_(status) {
    if (!json.is_object()) Fault("", "is no object");
  }

  void Read(const char* key, std::string& out) {
    if (const JsonValue* value = Required(key)) {
      if (!value->is_string()) return Fault(key, "is no text");
      out = value->string_value();
    }
  }
  void Read(const char* key, bool& out) {
    if (const JsonValue* value = Required(key)) {
      if (!value->is_bool()) return Fault(key, "is neither true nor false");
      out = value->bool_value();
    }
  }
  void Read(const char* key, double& out) {
    if (const JsonValue* value = Required(key)) {
      if (!value->is_number()) return Fault(key, "is no number");
      out = value->number();
    }
  }
  void Read(const char* key, int64_t& out) {
    std::optional<int64_t> value;
    Read(key, value);
    if (!status_.ok()) return;
    if (!value.has_value()) return Fault(key, "is no whole number");
    out = *value;
  }
  void Read(const char* key, std::optional<double>& out) {
    const JsonValue* value = Required(key);
    if (value == nullptr || value->is_null()) return;
    if (!value->is_number()) return Fault(key, "is neither a number nor null");
    out = value->number();
  }
  void Read(const char* key, std::optional<int64_t>& out) {
    const JsonValue* value = Required(key);
    if (value == nullptr || value->is_null()) return;
    if (value->is_int()) {
      out = value->int_value();
    } else if (value->is_double() && std::abs(value->number()) < 9e15 &&
               value->number() == std::floor(value->number())) {
      out = static_cast<int64_t>(value->number());
    } else {
      Fault(key, "is neither a whole number nor null");
    }
  }
  void Read(const char* key, std::optional<std::string>& out) {
    const JsonValue* value = Required(key);
    if (value == nullptr || value->is_null()) return;
    if (!value->is_string()) return Fault(key, "is neither text nor null");
    out = value->string_value();
  }
  // Leaves `out` alone when the member is missing.
  template <typename T>
  void ReadIfThere(const char* key, std::optional<T>& out) {
    if (json_.Find(key) != nullptr) Read(key, out);
  }

  const JsonValue* RequiredArray(const char* key) {
    const JsonValue* value = Required(key);
    if (value == nullptr || value->is_array()) return value;
    Fault(key, "is no list");
    return nullptr;
  }
  const JsonValue* RequiredObject(const char* key) {
    const JsonValue* value = Required(key);
    if (value == nullptr || value->is_object()) return value;
    Fault(key, "is no object");
    return nullptr;
  }

  void Fault(const char* key, const char* what) {
    if (!status_.ok()) return;
    status_ = MakeError(reason::kTraceUnparsable,
                        absl::StrCat("not a whole profile: \"", path_, key, "\" ", what));
  }

 private:
  const JsonValue* Required(const char* key) {
    if (!status_.ok()) return nullptr;
    const JsonValue* value = json_.Find(key);
    if (value == nullptr) Fault(key, "is missing");
    return value;
  }

  const JsonValue& json_;
  const std::string path_;
  absl::Status& status_;
};

void ParseRow(const JsonValue& json, absl::Status& status, KernelRow& row) {
  Members members(json, "kernels[].", status);
  members.Read("kernel", row.kernel);
  members.Read("raw_name", row.raw_name);
  members.Read("category", row.category);
  members.Read("tensorcore", row.tensorcore);
  members.Read("ms_per_step", row.ms_per_step);
  members.Read("pct_of_gpu", row.pct_of_gpu);
  members.Read("count_per_step", row.count_per_step);
  members.ReadIfThere("total_ns", row.total_ns);
  members.ReadIfThere("total_count", row.total_count);
  members.ReadIfThere("exclusive_ns", row.exclusive_ns);
}

void ParseRow(const JsonValue& json, absl::Status& status, OpRow& row) {
  Members members(json, "ops[].", status);
  members.Read("op", row.op);
  members.Read("ms_per_step", row.ms_per_step);
  members.Read("pct_of_cpu_ops", row.pct_of_cpu_ops);
  members.Read("count_per_step", row.count_per_step);
  members.ReadIfThere("self_ms_per_step", row.self_ms_per_step);
  members.ReadIfThere("self_ns", row.self_ns);
  members.ReadIfThere("total_ns", row.total_ns);
  members.ReadIfThere("total_count", row.total_count);
}

void ParseRow(const JsonValue& json, absl::Status& status, PhaseRow& row) {
  Members members(json, "phases[].", status);
  members.Read("phase", row.phase);
  members.Read("gpu_ms_per_step", row.gpu_ms_per_step);
  members.Read("wall_ms_per_step", row.wall_ms_per_step);
  members.Read("kernels_per_step", row.kernels_per_step);
  members.Read("ops_per_step", row.ops_per_step);
  members.Read("unique_kernels", row.unique_kernels);
  members.ReadIfThere("recording_gpu_ns", row.recording_gpu_ns);
  members.ReadIfThere("recording_wall_ns", row.recording_wall_ns);
  members.ReadIfThere("recording_kernels", row.recording_kernels);
  members.ReadIfThere("recording_ops", row.recording_ops);
}

void ParseRow(const JsonValue& json, absl::Status& status, CategoryRow& row) {
  Members members(json, "categories[].", status);
  members.Read("name", row.name);
  members.Read("pct", row.pct);
  members.Read("ms_per_step", row.ms_per_step);
  members.ReadIfThere("exclusive_ns", row.exclusive_ns);
  members.ReadIfThere("launches", row.launches);
}

template <typename Row>
void ParseRows(const JsonValue& list, absl::Status& status, std::vector<Row>& rows) {
  if (!list.is_array()) {
    if (status.ok()) {
      status = MakeError(reason::kTraceUnparsable, "not a whole profile: rows are no list");
    }
    return;
  }
  for (const JsonValue& item : list.array()) ParseRow(item, status, rows.emplace_back());
}

template <typename Groups>
void ParseGroups(const JsonValue* object, absl::Status& status, Groups& groups) {
  if (object == nullptr) return;
  for (const auto& [name, list] : object->object()) {
    groups.emplace_back(name, typename Groups::value_type::second_type());
    ParseRows(list, status, groups.back().second);
  }
}

void ParseLimits(const JsonValue& json, const char* key, Latency::Limits& limits) {
  const JsonValue* pair = json.Find(key);
  if (pair == nullptr || !pair->is_array() || pair->array().size() != 2) return;
  if (pair->array()[0].is_number()) limits.low_ms = pair->array()[0].number();
  if (pair->array()[1].is_number()) limits.high_ms = pair->array()[1].number();
}

void ParseLatency(const JsonValue& json, absl::Status& status, Latency& latency) {
  Members members(json, "latency.", status);
  members.Read("p50_ms", latency.p50_ms);
  members.Read("p90_ms", latency.p90_ms);
  members.Read("p99_ms", latency.p99_ms);
  members.Read("mean_ms", latency.mean_ms);
  members.Read("min_ms", latency.min_ms);
  members.Read("max_ms", latency.max_ms);
  members.Read("n", latency.n);
  latency.has_limits = json.Find("p50_limits_ms") != nullptr;
  ParseLimits(json, "p50_limits_ms", latency.p50_limits);
  ParseLimits(json, "p90_limits_ms", latency.p90_limits);
  ParseLimits(json, "p99_limits_ms", latency.p99_limits);
}

void ParseHead(Members& members, Profile& profile) {
  members.Read("schema", profile.schema);
  members.Read("trace", profile.trace);
  members.Read("model", profile.model);
  if (const JsonValue* config = members.RequiredObject("config")) profile.config = *config;
  members.Read("bound", profile.bound);
  members.Read("bound_why", profile.bound_why);
  members.Read("step_ms", profile.step_ms);
  members.Read("img_per_s", profile.img_per_s);
  members.Read("dataload_ms", profile.dataload_ms);
  members.Read("dataload_frac", profile.dataload_frac);
  members.Read("gpu_util", profile.gpu_util);
  members.Read("gpu_util_raw", profile.gpu_util_raw);
  members.Read("memory_pressure", profile.memory_pressure);
  members.Read("cuda_mallocs_per_step", profile.cuda_mallocs_per_step);
  members.Read("host_overhead_ms_per_step", profile.host_overhead_ms_per_step);
  members.Read("launches_per_step", profile.launches_per_step);
  members.Read("gpu_busy_ms_per_step", profile.gpu_busy_ms_per_step);
  members.Read("mean_kernel_us", profile.mean_kernel_us);
  members.Read("kernels_per_step", profile.kernels_per_step);
  members.Read("unique_kernels", profile.unique_kernels);
  members.Read("memcpy_ms_per_step", profile.memcpy_ms_per_step);
  members.Read("tensorcore_pct", profile.tensorcore_pct);
  members.Read("peak_vram_mb", profile.peak_vram_mb);
}

void ParseLists(const JsonValue& json, Members& members, absl::Status& status, Profile& profile) {
  if (const JsonValue* window = members.RequiredObject("window")) {
    Members fields(*window, "window.", status);
    fields.Read("wall_ms", profile.window_wall_ms);
    fields.Read("real_steps", profile.window_real_steps);
  }
  if (const JsonValue* metrics = members.RequiredObject("metrics")) {
    profile.metrics = metrics->object();
  }
  if (const JsonValue* rows = members.RequiredArray("categories")) {
    ParseRows(*rows, status, profile.categories);
  }
  if (const JsonValue* rows = members.RequiredArray("phases")) {
    ParseRows(*rows, status, profile.phases);
  }
  if (const JsonValue* rows = members.RequiredArray("kernels")) {
    ParseRows(*rows, status, profile.kernels);
  }
  if (const JsonValue* rows = members.RequiredArray("ops")) ParseRows(*rows, status, profile.ops);
  ParseGroups(members.RequiredObject("kernels_by_phase"), status, profile.kernels_by_phase);
  ParseGroups(members.RequiredObject("ops_by_phase"), status, profile.ops_by_phase);
  members.ReadIfThere("mode", profile.mode);
  if (const JsonValue* latency = json.Find("latency")) {
    ParseLatency(*latency, status, profile.latency.emplace());
  }
  if (const JsonValue* stages = json.Find("stages_ms"); stages != nullptr && stages->is_object()) {
    profile.stages_ms.emplace();
    for (const auto& [name, ms] : stages->object()) {
      if (!ms.is_number()) return members.Fault("stages_ms", "holds something that is no number");
      profile.stages_ms->emplace_back(name, ms.number());
    }
  }
  members.ReadIfThere("img_per_s_std", profile.img_per_s_std);
  members.ReadIfThere("img_per_s_n", profile.img_per_s_n);
  if (const JsonValue* trials = json.Find("img_per_s_trials");
      trials != nullptr && trials->is_array()) {
    for (const JsonValue& trial : trials->array()) {
      if (!trial.is_number()) return members.Fault("img_per_s_trials", "holds no numbers");
      profile.img_per_s_trials.push_back(trial.number());
    }
  }
  if (const JsonValue* aggregation = json.Find("aggregation")) profile.aggregation = *aggregation;
}

const std::set<absl::string_view>& KnownKeys() {
  static const auto& keys = *new std::set<absl::string_view>{"schema",
                                                             "trace",
                                                             "model",
                                                             "config",
                                                             "bound",
                                                             "bound_why",
                                                             "step_ms",
                                                             "img_per_s",
                                                             "dataload_ms",
                                                             "dataload_frac",
                                                             "gpu_util",
                                                             "gpu_util_raw",
                                                             "memory_pressure",
                                                             "cuda_mallocs_per_step",
                                                             "host_overhead_ms_per_step",
                                                             "launches_per_step",
                                                             "gpu_busy_ms_per_step",
                                                             "mean_kernel_us",
                                                             "kernels_per_step",
                                                             "unique_kernels",
                                                             "memcpy_ms_per_step",
                                                             "tensorcore_pct",
                                                             "peak_vram_mb",
                                                             "window",
                                                             "metrics",
                                                             "categories",
                                                             "phases",
                                                             "phases_gpu",
                                                             "kernels_by_phase",
                                                             "ops_by_phase",
                                                             "top_kernels",
                                                             "kernels",
                                                             "ops",
                                                             "mode",
                                                             "latency",
                                                             "stages_ms",
                                                             "img_per_s_std",
                                                             "img_per_s_n",
                                                             "img_per_s_trials",
                                                             "aggregation"};
  return keys;
}

// The peer's order shows which of its two builders wrote the file.
bool HasUntracedLayout(const JsonValue& json) {
  for (const auto& [key, value] : json.object()) {
    if (key == "metrics") return false;
    if (key == "latency" || key == "mode") return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<Profile> ProfileFromJson(const JsonValue& json) {
  const JsonValue* schema = json.Find("schema");
  if (schema == nullptr || !schema->is_string() ||
      !absl::StartsWith(schema->string_value(), kProfileSchemaFamily)) {
    return MakeError(reason::kTraceUnparsable, "not a profile: it names no schema of ours");
  }
  if (schema->string_value() != kProfileSchema) {
    return MakeError(reason::kTraceSchemaUnsupported,
                     absl::StrCat("the profile has the schema ", schema->string_value(),
                                  "; this version reads ", kProfileSchema),
                     {"read it with the version that wrote it, or a later one"});
  }
  Profile profile;
  absl::Status status;
  Members members(json, "", status);
  ParseHead(members, profile);
  ParseLists(json, members, status, profile);
  LY_RETURN_IF_ERROR(status);
  ReadExtras(json, profile);
  // An untraced profile of ours for training has no latency; then an empty trace and no rows tell.
  profile.untraced_layout =
      HasUntracedLayout(json) ||
      (profile.ours && !profile.trace.has_value() && !profile.completeness.has_value());
  for (const auto& [key, value] : json.object()) {
    if (KnownKeys().count(key) == 0 && !(profile.ours && IsExtraKey(key))) {
      profile.unknown.Set(key, value);
    }
  }
  return profile;
}

}  // namespace libreyolo::analysis
