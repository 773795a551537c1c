#include "common/job/measurement_json.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace libreyolo::job {
namespace {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

// One description of the fields serves both directions: a visitor either writes or reads each of
// them, so the two can not drift apart.
class Writer {
 public:
  template <typename T>
  void Field(const char* key, const T& value) {
    json_.Set(key, ToJson(value));
  }
  JsonValue Take() { return std::move(json_); }

  template <typename T>
  static JsonValue ToJson(const T& value);

 private:
  JsonValue json_{JsonValue::Object{}};
};

class Reader {
 public:
  Reader(const JsonValue& json, std::string path) : json_(json), path_(std::move(path)) {}

  template <typename T>
  void Field(const char* key, T& value) {
    if (!status_.ok()) return;
    const JsonValue* member = json_.Find(key);
    const std::string where = path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
    // What was added later is optional, and older traces lack it.
    if (member == nullptr && IsOptional<T>::value) return;
    if (member == nullptr) {
      status_ = absl::InvalidArgumentError(absl::StrCat("measurement: \"", where, "\" is missing"));
      return;
    }
    if (!FromJson(*member, where, value) && status_.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("measurement: \"", where, "\" has the wrong type"));
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  bool FromJson(const JsonValue& json, const std::string& where, T& value);

  const JsonValue& json_;
  std::string path_;
  absl::Status status_;
};

template <typename Visitor, typename T>
void VisitFinding(Visitor& v, T& f) {
  v.Field("severity", f.severity);
  v.Field("code", f.code);
  v.Field("text", f.text);
}

template <typename Visitor, typename T>
void VisitModel(Visitor& v, T& m) {
  v.Field("weights", m.weights);
  v.Field("weights_path", m.weights_path);
  v.Field("weights_digest", m.weights_digest);
  v.Field("random_weights", m.random_weights);
  v.Field("family", m.family);
  v.Field("size", m.size);
  v.Field("class_count", m.class_count);
  v.Field("parameter_count", m.parameter_count);
  v.Field("letterbox", m.letterbox);
}

template <typename Visitor, typename T>
void VisitEnvironment(Visitor& v, T& e) {
  v.Field("cpu_model", e.cpu_model);
  v.Field("logical_cpus", e.logical_cpus);
  v.Field("cpu_quota", e.cpu_quota);
  v.Field("threads", e.threads);
  v.Field("load_before", e.load_before);
  v.Field("load_after", e.load_after);
  v.Field("foreign_cpu_ratio", e.foreign_cpu_ratio);
  v.Field("steal_ratio", e.steal_ratio);
  v.Field("memory_total_bytes", e.memory_total_bytes);
  v.Field("kernel", e.kernel);
  v.Field("torch_version", e.torch_version);
  v.Field("worker_build", e.worker_build);
  v.Field("clock", e.clock);
}

template <typename Visitor, typename T>
void VisitStep(Visitor& v, T& s) {
  v.Field("duration_ns", s.duration_ns);
  v.Field("phases_ns", s.phases_ns);
}

template <typename Visitor, typename T>
void VisitGpuSample(Visitor& v, T& s) {
  v.Field("at_ns", s.at_ns);
  v.Field("sm_clock_mhz", s.sm_clock_mhz);
  v.Field("memory_clock_mhz", s.memory_clock_mhz);
  v.Field("clock_limits", s.clock_limits);
  v.Field("power_w", s.power_w);
  v.Field("temperature_c", s.temperature_c);
  v.Field("foreign_processes", s.foreign_processes);
}

template <typename Visitor, typename T>
void VisitForeignProcess(Visitor& v, T& p) {
  v.Field("pid", p.pid);
  v.Field("name", p.name);
  v.Field("memory_bytes", p.memory_bytes);
  v.Field("busy_percent", p.busy_percent);
}

template <typename Visitor, typename T>
void VisitGpuWatch(Visitor& v, T& w) {
  v.Field("unavailable", w.unavailable);
  v.Field("uuid", w.uuid);
  v.Field("name", w.name);
  v.Field("memory_total_bytes", w.memory_total_bytes);
  v.Field("samples_per_s", w.samples_per_s);
  v.Field("throttled_ratio", w.throttled_ratio);
  v.Field("limits", w.limits);
  v.Field("sm_clock_min_mhz", w.sm_clock_min_mhz);
  v.Field("sm_clock_mean_mhz", w.sm_clock_mean_mhz);
  v.Field("sm_clock_max_mhz", w.sm_clock_max_mhz);
  v.Field("power_mean_w", w.power_mean_w);
  v.Field("power_max_w", w.power_max_w);
  v.Field("temperature_max_c", w.temperature_max_c);
  v.Field("energy_j", w.energy_j);
  v.Field("energy_per_image_j", w.energy_per_image_j);
  v.Field("processes_unclear", w.processes_unclear);
  v.Field("foreign", w.foreign);
  v.Field("samples", w.samples);
}

template <typename Visitor, typename T>
void VisitDeviceMemory(Visitor& v, T& m) {
  v.Field("steps", m.steps);
  v.Field("peak_reserved_bytes", m.peak_reserved_bytes);
  v.Field("allocations", m.allocations);
  v.Field("frees", m.frees);
  v.Field("device_allocations", m.device_allocations);
  v.Field("device_frees", m.device_frees);
  v.Field("retries", m.retries);
}

template <typename Visitor, typename T>
void VisitMeasurement(Visitor& v, T& m) {
  v.Field("mode", m.mode);
  v.Field("model", m.model);
  v.Field("device", m.device);
  v.Field("device_name", m.device_name);
  v.Field("batch", m.batch);
  v.Field("imgsz", m.imgsz);
  v.Field("imgsz_requested", m.imgsz_requested);
  v.Field("warmup", m.warmup);
  v.Field("runs", m.runs);
  v.Field("half", m.half);
  v.Field("half_requested", m.half_requested);
  v.Field("amp", m.amp);
  v.Field("amp_requested", m.amp_requested);
  v.Field("amp_dtype", m.amp_dtype);
  v.Field("conf", m.conf);
  v.Field("iou", m.iou);
  v.Field("max_det", m.max_det);
  v.Field("workers", m.workers);
  v.Field("source", m.source);
  v.Field("source_count", m.source_count);
  v.Field("latencies_ns", m.latencies_ns);
  v.Field("dataload_ns", m.dataload_ns);
  v.Field("images_processed", m.images_processed);
  v.Field("untraced_wall_ns", m.untraced_wall_ns);
  v.Field("traced_steps", m.traced_steps);
  v.Field("traced", m.traced);
  v.Field("op_records", m.op_records);
  v.Field("dropped_records", m.dropped_records);
  v.Field("peak_rss_bytes", m.peak_rss_bytes);
  v.Field("peak_vram_bytes", m.peak_vram_bytes);
  v.Field("detections", m.detections);
  v.Field("environment", m.environment);
  v.Field("gpu_watch", m.gpu_watch);
  v.Field("device_memory", m.device_memory);
  v.Field("findings", m.findings);
}

// Calls the Visit function of a struct type.
template <typename Visitor, typename T>
void VisitStruct(Visitor& v, T& value) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, Finding>) VisitFinding(v, value);
  if constexpr (std::is_same_v<Plain, ModelInfo>) VisitModel(v, value);
  if constexpr (std::is_same_v<Plain, Environment>) VisitEnvironment(v, value);
  if constexpr (std::is_same_v<Plain, TracedStep>) VisitStep(v, value);
  if constexpr (std::is_same_v<Plain, GpuSample>) VisitGpuSample(v, value);
  if constexpr (std::is_same_v<Plain, ForeignProcess>) VisitForeignProcess(v, value);
  if constexpr (std::is_same_v<Plain, GpuWatch>) VisitGpuWatch(v, value);
  if constexpr (std::is_same_v<Plain, DeviceMemory>) VisitDeviceMemory(v, value);
  if constexpr (std::is_same_v<Plain, Measurement>) VisitMeasurement(v, value);
}

template <typename T>
JsonValue Writer::ToJson(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return JsonValue(static_cast<int64_t>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return JsonValue(value);
  } else if constexpr (std::is_integral_v<T>) {
    return JsonValue(static_cast<int64_t>(value));
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
    return JsonValue(value);
  } else if constexpr (IsOptional<T>::value) {
    return value.has_value() ? ToJson(*value) : JsonValue();
  } else if constexpr (std::is_same_v<T, std::vector<std::pair<std::string, int64_t>>>) {
    JsonValue object{JsonValue::Object{}};
    for (const auto& [name, number] : value) object.Set(name, JsonValue(number));
    return object;
  } else if constexpr (IsVector<T>::value) {
    JsonValue::Array items;
    for (const auto& item : value) items.push_back(ToJson(item));
    return JsonValue(std::move(items));
  } else {
    Writer writer;
    VisitStruct(writer, value);
    return writer.Take();
  }
}

template <typename T>
bool Reader::FromJson(const JsonValue& json, const std::string& where, T& value) {
  if constexpr (std::is_enum_v<T>) {
    if (!json.is_int() || json.int_value() < 0 || json.int_value() > 2) return false;
    value = static_cast<T>(json.int_value());
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_bool()) return false;
    value = json.bool_value();
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_int()) return false;
    value = static_cast<T>(json.int_value());
    return true;
  } else if constexpr (std::is_same_v<T, double>) {
    if (!json.is_number()) return false;
    value = json.number();
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) return false;
    value = json.string_value();
    return true;
  } else if constexpr (IsOptional<T>::value) {
    if (json.is_null()) {
      value.reset();
      return true;
    }
    return FromJson(json, where, value.emplace());
  } else if constexpr (std::is_same_v<T, std::vector<std::pair<std::string, int64_t>>>) {
    if (!json.is_object()) return false;
    for (const auto& [name, number] : json.object()) {
      if (!number.is_int()) return false;
      value.emplace_back(name, number.int_value());
    }
    return true;
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) return false;
    for (const JsonValue& item : json.array()) {
      if (!FromJson(item, where, value.emplace_back())) return false;
    }
    return true;
  } else {
    if (!json.is_object()) return false;
    Reader reader(json, where);
    VisitStruct(reader, value);
    status_ = reader.status();
    return status_.ok();
  }
}

}  // namespace

JsonValue MeasurementToJson(const Measurement& measurement) {
  Writer writer;
  VisitMeasurement(writer, measurement);
  return writer.Take();
}

absl::StatusOr<Measurement> MeasurementFromJson(const JsonValue& json) {
  if (!json.is_object()) return absl::InvalidArgumentError("measurement: not an object");
  Measurement measurement;
  Reader reader(json, "");
  VisitMeasurement(reader, measurement);
  LY_RETURN_IF_ERROR(reader.status());
  return measurement;
}

}  // namespace libreyolo::job
