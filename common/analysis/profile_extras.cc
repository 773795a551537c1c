#include "common/analysis/profile_extras.h"

#include <algorithm>
#include <iterator>

#include "common/analysis/profile_json.h"
#include "common/analysis/profile_metrics.h"
#include "common/job/measurement_json.h"

namespace libreyolo::analysis {
namespace {

constexpr const char* kExtraKeys[] = {
    "writer",       "job",         "validity",    "findings",    "levers",
    "bound_stored", "gpu",         "exact",       "tracing",     "devices",
    "completeness", "peak_rss_mb", "environment", "weights",     "gpu_watch",
    "latencies_ns", "dataload_ns", "trials",      "queue_delay", "device_memory"};

struct GpuWord {
  GpuState state;
  const char* word;
};
constexpr GpuWord kGpuWords[] = {{GpuState::kUnknown, "unknown"},
                                 {GpuState::kRecorded, "recorded"},
                                 {GpuState::kNone, "none"},
                                 {GpuState::kNotRecorded, "not recorded"}};

// One list of fields serves both directions, so that they cannot drift apart.
template <typename Visitor, typename T>
void VisitExact(Visitor&& visit, T& exact) {
  visit("step_ms", exact.step_ms);
  visit("img_per_s", exact.img_per_s);
  visit("gpu_busy_ms", exact.gpu_busy_ms);
  visit("gpu_sum_ms", exact.gpu_sum_ms);
  visit("kernels_per_step", exact.kernels_per_step);
  visit("launches_per_step", exact.launches_per_step);
  visit("ops_per_step", exact.ops_per_step);
  visit("host_wait_ms", exact.host_wait_ms);
  visit("graph_launches_per_step", exact.graph_launches_per_step);
}

template <typename Visitor, typename T>
void VisitCompleteness(Visitor&& visit, T& c) {
  visit("kernels", c.kernels);
  visit("by_launch", c.by_launch);
  visit("by_time", c.by_time);
  visit("graph_kernels", c.graph_kernels);
  visit("untimed_kernels", c.untimed_kernels);
  visit("zero_duration_kernels", c.zero_duration_kernels);
  visit("launches", c.launches);
  visit("launches_without_kernel", c.launches_without_kernel);
  visit("kernels_in_trace", c.kernels_in_trace);
  visit("launches_in_trace", c.launches_in_trace);
}

template <typename Visitor, typename T>
void VisitDevice(Visitor&& visit, T& device) {
  visit("device", device.device);
  visit("busy_ns", device.busy_ns);
  visit("sum_ns", device.sum_ns);
  visit("kernel_count", device.kernel_count);
  visit("stream_count", device.stream_count);
}

template <typename Visitor, typename T>
void VisitStream(Visitor&& visit, T& stream) {
  visit("stream", stream.stream);
  visit("busy_ns", stream.busy_ns);
  visit("sum_ns", stream.sum_ns);
  visit("kernel_count", stream.kernel_count);
}

template <typename Visitor, typename T>
void VisitQueueDelay(Visitor&& visit, T& delay) {
  visit("launches", delay.launches);
  visit("mean_ns", delay.mean_ns);
  visit("p50_ns", delay.p50_ns);
  visit("max_ns", delay.max_ns);
  visit("last_ns", delay.last_ns);
  visit("early_launches", delay.early_launches);
}

template <typename Visitor, typename T>
void VisitTracing(Visitor&& visit, T& tracing) {
  visit("traced_step_ms", tracing.traced_step_ms);
  visit("untraced_step_ms", tracing.untraced_step_ms);
  visit("ratio", tracing.ratio);
  visit("op_records", tracing.op_records);
  visit("dropped_records", tracing.dropped_records);
}

struct ToObject {
  JsonValue& json;
  void operator()(const char* key, const std::optional<double>& value) const {
    json.Set(key, ToJson(value));
  }
  void operator()(const char* key, double value) const { json.Set(key, value); }
  void operator()(const char* key, int64_t value) const { json.Set(key, value); }
  void operator()(const char* key, int32_t value) const { json.Set(key, value); }
};

struct FromObject {
  const JsonValue& json;
  void operator()(const char* key, std::optional<double>& value) const {
    const JsonValue* member = json.Find(key);
    if (member != nullptr && member->is_number()) value = member->number();
  }
  void operator()(const char* key, double& value) const {
    const JsonValue* member = json.Find(key);
    if (member != nullptr && member->is_number()) value = member->number();
  }
  void operator()(const char* key, int64_t& value) const {
    const JsonValue* member = json.Find(key);
    if (member != nullptr && member->is_int()) value = member->int_value();
  }
  void operator()(const char* key, int32_t& value) const {
    const JsonValue* member = json.Find(key);
    if (member != nullptr && member->is_int()) value = static_cast<int32_t>(member->int_value());
  }
};

JsonValue EmptyObject() { return JsonValue(JsonValue::Object{}); }

JsonValue ListOf(const std::vector<int64_t>& values) {
  return JsonValue(JsonValue::Array(values.begin(), values.end()));
}

void ReadList(const JsonValue* json, std::vector<int64_t>& values) {
  if (json == nullptr || !json->is_array()) return;
  for (const JsonValue& item : json->array()) {
    if (item.is_int()) values.push_back(item.int_value());
  }
}

}  // namespace

JsonValue FindingsToJson(const std::vector<job::Finding>& findings) {
  constexpr const char* kSeverities[] = {"info", "suspect", "invalid"};
  JsonValue::Array items;
  for (const job::Finding& finding : findings) {
    JsonValue item = EmptyObject();
    item.Set("severity", kSeverities[static_cast<int>(finding.severity)]);
    item.Set("code", finding.code);
    item.Set("text", finding.text);
    items.push_back(std::move(item));
  }
  return JsonValue(std::move(items));
}

JsonValue DevicesToJson(const std::vector<DeviceFigures>& devices) {
  JsonValue::Array items;
  for (const DeviceFigures& device : devices) {
    JsonValue& item = items.emplace_back(EmptyObject());
    VisitDevice(ToObject{item}, device);
    JsonValue::Array streams;
    for (const StreamFigures& stream : device.streams) {
      VisitStream(ToObject{streams.emplace_back(EmptyObject())}, stream);
    }
    item.Set("streams", JsonValue(std::move(streams)));
  }
  return JsonValue(std::move(items));
}

JsonValue QueueDelayToJson(const QueueDelay& delay) {
  JsonValue json = EmptyObject();
  VisitQueueDelay(ToObject{json}, delay);
  return json;
}

bool IsExtraKey(absl::string_view key) {
  return std::any_of(std::begin(kExtraKeys), std::end(kExtraKeys),
                     [&](const char* extra) { return key == extra; });
}

void AppendExtras(const Profile& profile, JsonValue& document) {
  const auto add = [&](const char* key, JsonValue value) {
    document.object().emplace_back(key, std::move(value));
  };
  add("writer", "libreyolod");
  if (profile.job.has_value()) add("job", *profile.job);
  add("validity", Name(profile.validity));
  add("findings", FindingsToJson(profile.findings));
  add("levers", JsonValue(JsonValue::Array(profile.levers.begin(), profile.levers.end())));
  if (profile.bound_stored.has_value()) add("bound_stored", *profile.bound_stored);
  for (const GpuWord& entry : kGpuWords) {
    if (entry.state == profile.gpu) add("gpu", entry.word);
  }
  JsonValue exact = EmptyObject();
  VisitExact(ToObject{exact}, profile.exact);
  add("exact", std::move(exact));
  if (profile.tracing.has_value()) {
    JsonValue tracing = EmptyObject();
    VisitTracing(ToObject{tracing}, *profile.tracing);
    add("tracing", std::move(tracing));
  }
  add("devices", DevicesToJson(profile.devices));
  if (profile.completeness.has_value()) {
    JsonValue completeness = EmptyObject();
    VisitCompleteness(ToObject{completeness}, *profile.completeness);
    add("completeness", std::move(completeness));
  }
  if (profile.queue_delay.has_value()) add("queue_delay", QueueDelayToJson(*profile.queue_delay));
  if (profile.peak_rss_mb.has_value()) add("peak_rss_mb", *profile.peak_rss_mb);
  if (profile.environment.has_value() || profile.weights.has_value()) {
    job::Measurement holder;
    if (profile.environment.has_value()) holder.environment = *profile.environment;
    if (profile.weights.has_value()) holder.model = *profile.weights;
    const JsonValue json = job::MeasurementToJson(holder);
    if (profile.environment.has_value()) add("environment", *json.Find("environment"));
    if (profile.weights.has_value()) add("weights", *json.Find("model"));
  }
  if (profile.gpu_watch.has_value()) {
    job::Measurement holder;
    holder.gpu_watch = profile.gpu_watch;
    add("gpu_watch", *job::MeasurementToJson(holder).Find("gpu_watch"));
  }
  if (profile.device_memory.has_value()) {
    job::Measurement holder;
    holder.device_memory = profile.device_memory;
    add("device_memory", *job::MeasurementToJson(holder).Find("device_memory"));
  }
  add("latencies_ns", ListOf(profile.latencies_ns));
  if (!profile.dataload_ns.empty()) add("dataload_ns", ListOf(profile.dataload_ns));
  if (!profile.trials.empty()) {
    JsonValue::Array trials;
    for (const TrialFigures& trial : profile.trials) {
      JsonValue& item = trials.emplace_back(EmptyObject());
      item.Set("img_per_s", trial.img_per_s);
      item.Set("step_ms", trial.step_ms);
    }
    add("trials", JsonValue(std::move(trials)));
  }
}

namespace {

void ReadFindings(const JsonValue* list, Profile& profile) {
  if (list == nullptr || !list->is_array()) return;
  for (const JsonValue& item : list->array()) {
    const JsonValue* severity = item.Find("severity");
    const JsonValue* code = item.Find("code");
    const JsonValue* text = item.Find("text");
    if (severity == nullptr || code == nullptr || text == nullptr || !severity->is_string() ||
        !code->is_string() || !text->is_string()) {
      continue;
    }
    job::Finding finding;
    if (severity->string_value() == "suspect") finding.severity = job::Finding::Severity::kSuspect;
    if (severity->string_value() == "invalid") finding.severity = job::Finding::Severity::kInvalid;
    finding.code = code->string_value();
    finding.text = text->string_value();
    profile.findings.push_back(std::move(finding));
  }
}

void ReadWords(const JsonValue& document, Profile& profile) {
  if (const JsonValue* word = document.Find("validity"); word != nullptr && word->is_string()) {
    for (const Validity v : {Validity::kValid, Validity::kSuspect, Validity::kInvalid}) {
      if (word->string_value() == Name(v)) profile.validity = v;
    }
  }
  if (const JsonValue* word = document.Find("job"); word != nullptr && word->is_string()) {
    profile.job = word->string_value();
  }
  if (const JsonValue* word = document.Find("gpu"); word != nullptr && word->is_string()) {
    for (const GpuWord& entry : kGpuWords) {
      if (word->string_value() == entry.word) profile.gpu = entry.state;
    }
  }
  if (const JsonValue* word = document.Find("bound_stored"); word != nullptr && word->is_string()) {
    profile.bound_stored = word->string_value();
  }
  if (const JsonValue* list = document.Find("levers"); list != nullptr && list->is_array()) {
    for (const JsonValue& item : list->array()) {
      if (item.is_string()) profile.levers.push_back(item.string_value());
    }
  }
}

// A member that MeasurementFromJson can read back in the place where it belongs.
template <typename T>
void ReadPart(const JsonValue* part, const char* key, T job::Measurement::*member,
              std::optional<T>& out) {
  if (part == nullptr || !part->is_object()) return;
  JsonValue json = job::MeasurementToJson(job::Measurement());
  json.Set(key, *part);
  const absl::StatusOr<job::Measurement> measurement = job::MeasurementFromJson(json);
  if (measurement.ok()) out = (*measurement).*member;
}

}  // namespace

void ReadExtras(const JsonValue& document, Profile& profile) {
  profile.ours = document.Find("writer") != nullptr;
  if (!profile.ours) return;
  ReadWords(document, profile);
  ReadFindings(document.Find("findings"), profile);
  if (const JsonValue* exact = document.Find("exact"); exact != nullptr) {
    VisitExact(FromObject{*exact}, profile.exact);
  }
  if (const JsonValue* tracing = document.Find("tracing"); tracing != nullptr) {
    VisitTracing(FromObject{*tracing}, profile.tracing.emplace());
  }
  if (const JsonValue* devices = document.Find("devices");
      devices != nullptr && devices->is_array()) {
    for (const JsonValue& item : devices->array()) {
      DeviceFigures& device = profile.devices.emplace_back();
      VisitDevice(FromObject{item}, device);
      const JsonValue* streams = item.Find("streams");
      if (streams == nullptr || !streams->is_array()) continue;
      for (const JsonValue& stream : streams->array()) {
        VisitStream(FromObject{stream}, device.streams.emplace_back());
      }
    }
  }
  if (const JsonValue* completeness = document.Find("completeness"); completeness != nullptr) {
    VisitCompleteness(FromObject{*completeness}, profile.completeness.emplace());
  }
  if (const JsonValue* delay = document.Find("queue_delay"); delay != nullptr) {
    VisitQueueDelay(FromObject{*delay}, profile.queue_delay.emplace());
  }
  if (const JsonValue* rss = document.Find("peak_rss_mb"); rss != nullptr && rss->is_number()) {
    profile.peak_rss_mb = rss->number();
  }
  ReadPart(document.Find("environment"), "environment", &job::Measurement::environment,
           profile.environment);
  ReadPart(document.Find("weights"), "model", &job::Measurement::model, profile.weights);
  std::optional<std::optional<job::GpuWatch>> watch;
  ReadPart(document.Find("gpu_watch"), "gpu_watch", &job::Measurement::gpu_watch, watch);
  if (watch.has_value()) profile.gpu_watch = *std::move(watch);
  std::optional<std::optional<job::DeviceMemory>> memory;
  ReadPart(document.Find("device_memory"), "device_memory", &job::Measurement::device_memory,
           memory);
  if (memory.has_value()) profile.device_memory = *std::move(memory);
  ReadList(document.Find("latencies_ns"), profile.latencies_ns);
  ReadList(document.Find("dataload_ns"), profile.dataload_ns);
  if (const JsonValue* trials = document.Find("trials"); trials != nullptr && trials->is_array()) {
    for (const JsonValue& item : trials->array()) {
      TrialFigures& trial = profile.trials.emplace_back();
      FromObject{item}("img_per_s", trial.img_per_s);
      FromObject{item}("step_ms", trial.step_ms);
    }
  }
}

}  // namespace libreyolo::analysis
