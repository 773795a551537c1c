#include "client/render/json.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

JsonValue Object() { return JsonValue(JsonValue::Object{}); }

JsonValue CountJson(double count) {
  if (count == std::floor(count) && std::abs(count) < 1e15) {
    return JsonValue(static_cast<int64_t>(count));
  }
  return JsonValue(count);
}

JsonValue NumberOrNull(bool known, double value) { return known ? JsonValue(value) : JsonValue(); }

template <typename Row>
JsonValue CountOrNull(const Row& row) {
  return row.has_count_per_step() ? CountJson(row.count_per_step()) : JsonValue();
}

JsonValue TextOrNull(const std::string& text) {
  return text.empty() ? JsonValue() : JsonValue(text);
}

template <typename T>
JsonValue ListOf(const T& texts) {
  JsonValue::Array items;
  for (const std::string& text : texts) items.emplace_back(text);
  return JsonValue(std::move(items));
}

JsonValue FindingsJson(const google::protobuf::RepeatedPtrField<v1::Finding>& findings) {
  JsonValue::Array items;
  for (const v1::Finding& finding : findings) {
    JsonValue& item = items.emplace_back(Object());
    item.Set("severity", absl::AsciiStrToLower(v1::Finding::Severity_Name(finding.severity())));
    item.Set("code", finding.code());
    item.Set("text", finding.text());
  }
  return JsonValue(std::move(items));
}

void SetThroughput(const v1::SummaryReport& report, JsonValue& json) {
  json.Set("img_per_s", report.has_img_per_s() ? JsonValue(report.img_per_s()) : JsonValue());
  json.Set("img_per_s_std",
           report.has_img_per_s_std() ? JsonValue(report.img_per_s_std()) : JsonValue());
  json.Set("img_per_s_n", std::max<int64_t>(report.trial_count(), 1));
}

}  // namespace

JsonValue KernelsJson(const v1::KernelsReport& report) {
  JsonValue json = Object();
  json.Set("trace", TextOrNull(report.trace()));
  json.Set("matched", report.matched());
  JsonValue::Array rows;
  for (const v1::KernelRow& row : report.rows()) {
    JsonValue& item = rows.emplace_back(Object());
    item.Set("kernel", row.label());
    item.Set("raw_name", row.name());
    item.Set("category", row.category());
    item.Set("tensorcore", row.tensor_core());
    item.Set("ms_per_step", NumberOrNull(row.has_ms_per_step(), row.ms_per_step()));
    item.Set("pct_of_gpu", row.percent_of_gpu());
    item.Set("count_per_step", CountOrNull(row));
    if (!row.has_recording_count()) continue;
    item.Set("recording_ms", row.recording_ms());
    item.Set("recording_count", static_cast<int64_t>(row.recording_count()));
  }
  const int64_t shown = static_cast<int64_t>(rows.size());
  json.Set("kernels", JsonValue(std::move(rows)));
  json.Set("shown", shown);
  json.Set("matched_ms_per_step",
           NumberOrNull(report.has_matched_ms_per_step(), report.matched_ms_per_step()));
  json.Set("matched_pct", report.matched_percent());
  if (report.findings_size() > 0) json.Set("findings", FindingsJson(report.findings()));
  return json;
}

JsonValue OpsJson(const v1::OpsReport& report) {
  JsonValue json = Object();
  json.Set("trace", TextOrNull(report.trace()));
  JsonValue::Array rows;
  bool has_self_time = false;
  for (const v1::OpRow& row : report.rows()) {
    JsonValue& item = rows.emplace_back(Object());
    item.Set("op", row.name());
    item.Set("ms_per_step", row.has_total_ms_per_step()
                                ? JsonValue(row.total_ms_per_step())
                                : NumberOrNull(row.has_self_ms_per_step(), row.self_ms_per_step()));
    item.Set("pct_of_cpu_ops", row.percent_of_ops());
    item.Set("count_per_step", CountOrNull(row));
    if (row.has_recording_count()) {
      item.Set("recording_self_ms", row.recording_self_ms());
      item.Set("recording_ms", row.recording_ms());
      item.Set("recording_count", static_cast<int64_t>(row.recording_count()));
    }
    if (!row.has_total_ms_per_step()) continue;
    has_self_time = true;
    item.Set("self_ms_per_step", row.self_ms_per_step());
  }
  const int64_t shown = static_cast<int64_t>(rows.size());
  json.Set("ops", JsonValue(std::move(rows)));
  json.Set("matched", report.matched());
  json.Set("shown", shown);
  if (has_self_time) json.Set("self_ms_per_step", report.matched_self_ms_per_step());
  if (report.findings_size() > 0) json.Set("findings", FindingsJson(report.findings()));
  return json;
}

JsonValue MetricJson(const v1::MetricValue& value) {
  switch (value.value_case()) {
    case v1::MetricValue::kBoolValue:
      return JsonValue(value.bool_value());
    case v1::MetricValue::kIntValue:
      return JsonValue(static_cast<int64_t>(value.int_value()));
    case v1::MetricValue::kDoubleValue:
      return JsonValue(value.double_value());
    case v1::MetricValue::kStringValue:
      return JsonValue(value.string_value());
    case v1::MetricValue::VALUE_NOT_SET:
      break;
  }
  return JsonValue();
}

JsonValue InferResultJson(const v1::Job& job, const v1::SummaryReport& report) {
  JsonValue json = Object();
  json.Set("profile", job.profile());
  json.Set("mode", "inference");
  SetThroughput(report, json);
  json.Set("latency_p50_ms", report.latency().p50_ms());
  json.Set("latency_p90_ms", report.latency().p90_ms());
  json.Set("latency_p99_ms", report.latency().p99_ms());
  json.Set("bound", report.bound());
  JsonValue stages = Object();
  for (const v1::StageTime& stage : report.stages()) stages.Set(stage.name(), stage.ms());
  json.Set("stages_ms", std::move(stages));
  json.Set("job", job.id());
  json.Set("validity", TextOrNull(report.validity()));
  json.Set("trace", TextOrNull(job.trace()));
  return json;
}

JsonValue RunResultJson(const v1::Job& job, const v1::SummaryReport& report) {
  JsonValue json = Object();
  json.Set("profile", job.profile());
  json.Set("trace", TextOrNull(job.trace()));
  SetThroughput(report, json);
  json.Set("bound", report.bound());
  json.Set("gpu_util",
           report.has_gpu_util_ratio() ? JsonValue(report.gpu_util_ratio()) : JsonValue());
  json.Set("job", job.id());
  json.Set("validity", TextOrNull(report.validity()));
  return json;
}

std::string StateName(v1::JobState state) {
  const std::string& name = v1::JobState_Name(state);
  // A later server's, which this client has no word for.
  if (name.empty()) return absl::StrCat("STATE_", static_cast<int>(state));
  return std::string(absl::StripPrefix(name, "JOB_STATE_"));
}

std::string TimeText(bool is_set, const google::protobuf::Timestamp& time) {
  if (!is_set) return "";
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

JsonValue JobJson(const v1::Job& job) {
  JsonValue json = Object();
  json.Set("id", job.id());
  json.Set("state", StateName(job.state()));
  if (job.has_spec()) {
    json.Set("mode", job.spec().has_train() ? "train" : "inference");
    json.Set("device", job.spec().has_device() ? job.spec().device() : std::string("0"));
    json.Set("project",
             job.spec().has_project() ? job.spec().project() : std::string("runs/profile"));
  }
  json.Set("create_time", TextOrNull(TimeText(job.has_create_time(), job.create_time())));
  json.Set("start_time", TextOrNull(TimeText(job.has_start_time(), job.start_time())));
  json.Set("end_time", TextOrNull(TimeText(job.has_end_time(), job.end_time())));
  if (job.has_queue_position()) {
    json.Set("queue_position", static_cast<int64_t>(job.queue_position()));
    json.Set("waiting_for", TextOrNull(job.waiting_for()));
    if (job.has_expected_wait()) {
      json.Set("expected_wait_s", static_cast<int64_t>(job.expected_wait().seconds()));
    }
  }
  if (job.has_progress()) {
    JsonValue progress = Object();
    progress.Set("stage", job.progress().stage());
    progress.Set("done", static_cast<int64_t>(job.progress().done()));
    progress.Set("total", static_cast<int64_t>(job.progress().total()));
    json.Set("progress", std::move(progress));
  }
  json.Set("trial", static_cast<int64_t>(job.trial()));
  json.Set("trial_count", static_cast<int64_t>(job.trial_count()));
  if (job.has_error()) {
    JsonValue error = Object();
    error.Set("reason", job.error().reason());
    error.Set("message", job.error().message());
    error.Set("hints", ListOf(job.error().hints()));
    json.Set("error", std::move(error));
  }
  json.Set("profile", TextOrNull(job.profile()));
  json.Set("trace", TextOrNull(job.trace()));
  json.Set("principal", TextOrNull(job.principal()));
  json.Set("notes", ListOf(job.notes()));
  return json;
}

namespace {

JsonValue GpuStateJson(const v1::GpuState& gpu) {
  JsonValue json = Object();
  const auto set = [&json](const char* key, bool known, auto value) {
    json.Set(key, known ? JsonValue(value) : JsonValue());
  };
  json.Set("pci_bus_id", TextOrNull(gpu.pci_bus_id()));
  set("sm_clock_mhz", gpu.has_sm_clock_mhz(), int64_t{gpu.sm_clock_mhz()});
  set("max_sm_clock_mhz", gpu.has_max_sm_clock_mhz(), int64_t{gpu.max_sm_clock_mhz()});
  set("memory_clock_mhz", gpu.has_memory_clock_mhz(), int64_t{gpu.memory_clock_mhz()});
  json.Set("clock_limits",
           JsonValue(JsonValue::Array(gpu.clock_limits().begin(), gpu.clock_limits().end())));
  json.Set("throttled", gpu.throttled());
  set("power_w", gpu.has_power_w(), gpu.power_w());
  set("power_limit_w", gpu.has_power_limit_w(), gpu.power_limit_w());
  set("energy_j", gpu.has_energy_j(), gpu.energy_j());
  set("temperature_c", gpu.has_temperature_c(), int64_t{gpu.temperature_c()});
  set("busy_percent", gpu.has_busy_percent(), int64_t{gpu.busy_percent()});
  set("persistence", gpu.has_persistence(), gpu.persistence());
  json.Set("compute_mode", TextOrNull(gpu.compute_mode()));
  json.Set("mig_enabled", gpu.mig_enabled());
  return json;
}

}  // namespace

JsonValue DeviceJson(const v1::Device& device) {
  JsonValue json = Object();
  json.Set("id", device.id());
  json.Set("description", device.description());
  json.Set("uuid", TextOrNull(device.uuid()));
  json.Set("usable", device.usable());
  json.Set("unusable_reason", TextOrNull(device.unusable_reason()));
  json.Set("leased_by", TextOrNull(device.leased_by()));
  json.Set("memory_total_bytes", static_cast<int64_t>(device.memory_total_bytes()));
  json.Set("memory_used_bytes", device.has_memory_used_bytes()
                                    ? JsonValue(static_cast<int64_t>(device.memory_used_bytes()))
                                    : JsonValue());
  if (device.cpu_count() > 0) json.Set("cpu_count", static_cast<int64_t>(device.cpu_count()));
  JsonValue::Array processes;
  for (const v1::DeviceProcess& process : device.processes()) {
    JsonValue& item = processes.emplace_back(Object());
    item.Set("pid", static_cast<int64_t>(process.pid()));
    item.Set("name", process.name());
    item.Set("memory_bytes", process.has_memory_bytes()
                                 ? JsonValue(static_cast<int64_t>(process.memory_bytes()))
                                 : JsonValue());
  }
  json.Set("processes", JsonValue(std::move(processes)));
  if (!device.parent().empty()) json.Set("parent", device.parent());
  if (device.has_gpu()) json.Set("gpu", GpuStateJson(device.gpu()));
  if (!device.visible_as().empty()) json.Set("visible_as", device.visible_as());
  return json;
}

JsonValue ProfileInfoJson(const v1::ProfileInfo& info) {
  JsonValue json = Object();
  json.Set("path", info.path());
  json.Set("job", TextOrNull(info.job()));
  json.Set("mode", TextOrNull(info.mode()));
  json.Set("model", TextOrNull(info.model()));
  json.Set("device", TextOrNull(info.device()));
  json.Set("img_per_s", info.has_img_per_s() ? JsonValue(info.img_per_s()) : JsonValue());
  json.Set("step_ms", info.has_step_ms() ? JsonValue(info.step_ms()) : JsonValue());
  json.Set("bound", TextOrNull(info.bound()));
  json.Set("validity", TextOrNull(info.validity()));
  json.Set("time", TextOrNull(TimeText(info.has_time(), info.time())));
  json.Set("replaced", info.replaced());
  json.Set("pinned", info.pinned());
  json.Set("size_bytes", static_cast<int64_t>(info.size_bytes()));
  JsonValue::Array files;
  for (const v1::ProfileFile& file : info.files()) files.emplace_back(file.name());
  json.Set("files", JsonValue(std::move(files)));
  return json;
}

}  // namespace libreyolo::client
