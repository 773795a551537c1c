#include "common/rpc/convert_analysis.h"

#include <algorithm>

namespace libreyolo::rpc {
namespace {

namespace v1 = ::libreyolo::profile::v1;

template <typename T, typename Setter>
void SetIf(const std::optional<T>& value, Setter set) {
  if (value.has_value()) set(*value);
}

double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

void FillLatency(const analysis::Latency& latency, v1::LatencySummary& out) {
  out.set_p50_ms(latency.p50_ms);
  out.set_p90_ms(latency.p90_ms);
  out.set_p99_ms(latency.p99_ms);
  out.set_mean_ms(latency.mean_ms);
  out.set_min_ms(latency.min_ms);
  out.set_max_ms(latency.max_ms);
  out.set_n(latency.n);
  if (!latency.has_limits) return;
  SetIf(latency.p50_limits.low_ms, [&](double v) { out.set_p50_low_ms(v); });
  SetIf(latency.p50_limits.high_ms, [&](double v) { out.set_p50_high_ms(v); });
  SetIf(latency.p90_limits.low_ms, [&](double v) { out.set_p90_low_ms(v); });
  SetIf(latency.p90_limits.high_ms, [&](double v) { out.set_p90_high_ms(v); });
  SetIf(latency.p99_limits.low_ms, [&](double v) { out.set_p99_low_ms(v); });
  SetIf(latency.p99_limits.high_ms, [&](double v) { out.set_p99_high_ms(v); });
}

void FillStages(const analysis::SummaryReport& report, v1::SummaryReport& out) {
  double sum = 0;
  for (const auto& [name, ms] : report.stages_ms) sum += ms;
  for (const auto& [name, ms] : report.stages_ms) {
    v1::StageTime& stage = *out.add_stages();
    stage.set_name(name);
    stage.set_ms(ms);
    stage.set_share_ratio(sum > 0 ? ms / sum : 0);
  }
  if (!report.stages_ms.empty()) return;
  for (const auto& phase : report.phase_shares) {
    v1::StageTime& stage = *out.add_stages();
    stage.set_name(phase.phase);
    stage.set_ms(phase.ms);
    stage.set_share_ratio(phase.ratio);
  }
}

// The whole number that profiles state; where it is 0 for less than one a step, the rate itself.
double RateOf(int64_t stated, const std::optional<double>& exact) {
  return stated == 0 ? exact.value_or(0) : static_cast<double>(stated);
}

void FillGpu(const analysis::SummaryReport& report, v1::SummaryReport& out) {
  SetIf(report.gpu_util, [&](double v) { out.set_gpu_util_ratio(v); });
  SetIf(report.gpu_busy_ms_per_step, [&](double v) { out.set_gpu_busy_ms(v); });
  SetIf(report.tensorcore_pct, [&](double v) { out.set_tensor_core_percent(v); });
  SetIf(report.peak_vram_mb, [&](double v) { out.set_peak_vram_mb(v); });
  SetIf(report.memcpy_ms_per_step, [&](double v) { out.set_memcpy_ms(v); });
  SetIf(report.host_overhead_ms_per_step, [&](double v) { out.set_host_overhead_ms(v); });
  SetIf(report.launches_per_step,
        [&](int64_t v) { out.set_launches_per_step(RateOf(v, report.exact_launches_per_step)); });
  SetIf(report.kernels_per_step,
        [&](int64_t v) { out.set_kernels_per_step(RateOf(v, report.exact_kernels_per_step)); });
  SetIf(report.mean_kernel_us, [&](double v) { out.set_mean_kernel_us(v); });
  out.set_memory_pressure(report.memory_pressure);
  for (const analysis::CategoryRow& row : report.categories) {
    v1::CategoryRow& category = *out.add_categories();
    category.set_name(row.name);
    category.set_percent(row.pct);
    SetIf(row.ms_per_step, [&](double v) { category.set_ms_per_step(v); });
  }
  for (const analysis::KernelRow& row : report.top_kernels) *out.add_top_kernels() = ToProto(row);
}

template <typename Report>
void FillFindings(const std::vector<job::Finding>& findings, Report& out) {
  for (const job::Finding& finding : findings) *out.add_findings() = ToProto(finding);
}

}  // namespace

v1::KernelRow ToProto(const analysis::KernelRow& row) {
  v1::KernelRow out;
  out.set_label(row.kernel);
  out.set_name(row.raw_name);
  out.set_category(row.category);
  out.set_tensor_core(row.tensorcore);
  SetIf(row.ms_per_step, [&](double v) { out.set_ms_per_step(v); });
  out.set_percent_of_gpu(row.pct_of_gpu);
  SetIf(row.count_per_step, [&](int64_t v) { out.set_count_per_step(static_cast<double>(v)); });
  if (!row.count_per_step.has_value() && row.total_ns.has_value()) {
    out.set_recording_ms(Ms(*row.total_ns));
    out.set_recording_count(row.total_count.value_or(0));
  }
  return out;
}

v1::OpRow ToProto(const analysis::OpRow& row) {
  v1::OpRow out;
  out.set_name(row.op);
  if (row.self_ms_per_step.has_value()) {
    out.set_self_ms_per_step(*row.self_ms_per_step);
    SetIf(row.ms_per_step, [&](double v) { out.set_total_ms_per_step(v); });
  } else {
    SetIf(row.ms_per_step, [&](double v) { out.set_self_ms_per_step(v); });
  }
  out.set_percent_of_ops(row.pct_of_cpu_ops);
  SetIf(row.count_per_step, [&](int64_t v) { out.set_count_per_step(static_cast<double>(v)); });
  if (!row.count_per_step.has_value() && row.self_ns.has_value()) {
    out.set_recording_self_ms(Ms(*row.self_ns));
    out.set_recording_ms(Ms(row.total_ns.value_or(0)));
    out.set_recording_count(row.total_count.value_or(0));
  }
  return out;
}

v1::Finding ToProto(const job::Finding& finding) {
  v1::Finding out;
  switch (finding.severity) {
    case job::Finding::Severity::kInfo:
      out.set_severity(v1::Finding::INFO);
      break;
    case job::Finding::Severity::kSuspect:
      out.set_severity(v1::Finding::SUSPECT);
      break;
    case job::Finding::Severity::kInvalid:
      out.set_severity(v1::Finding::INVALID);
      break;
  }
  out.set_code(finding.code);
  out.set_text(finding.text);
  return out;
}

v1::SummaryReport ToProto(const analysis::SummaryReport& report, const std::string& shown) {
  v1::SummaryReport out;
  out.set_trace(shown);
  SetIf(report.model, [&](const std::string& v) { out.set_model(v); });
  out.set_mode(report.mode);
  out.set_device(report.device);
  out.set_on_cpu(report.on_cpu);
  out.set_bound(report.bound);
  out.set_bound_reason(report.bound_why);
  for (const std::string& lever : report.levers) out.add_levers(lever);
  SetIf(report.img_per_s, [&](double v) { out.set_img_per_s(v); });
  SetIf(report.img_per_s_std, [&](double v) { out.set_img_per_s_std(v); });
  out.set_trial_count(report.img_per_s_n.value_or(1));
  SetIf(report.step_ms, [&](double v) { out.set_step_ms(v); });
  if (report.latency.has_value()) FillLatency(*report.latency, *out.mutable_latency());
  FillStages(report, out);
  FillGpu(report, out);
  SetIf(report.threads, [&](int64_t v) { out.set_threads(v); });
  SetIf(report.peak_rss_mb, [&](double v) { out.set_peak_rss_mb(v); });
  for (const analysis::OpRow& row : report.top_ops) *out.add_top_ops() = ToProto(row);
  out.set_validity(analysis::Name(report.validity));
  for (const job::Finding& finding : report.findings) *out.add_findings() = ToProto(finding);
  SetIf(report.tracing_overhead_ratio, [&](double v) { out.set_tracing_overhead_ratio(v); });
  out.set_document_json(analysis::ToJson(report).ToIndented());
  return out;
}

v1::PhasesReport ToProto(const analysis::PhasesReport& report, const std::string& shown) {
  v1::PhasesReport out;
  out.set_trace(shown);
  for (const analysis::PhaseRow& row : report.rows) {
    v1::PhaseRow& phase = *out.add_rows();
    phase.set_name(row.phase);
    SetIf(row.gpu_ms_per_step, [&](double v) { phase.set_gpu_ms(v); });
    SetIf(row.wall_ms_per_step, [&](double v) { phase.set_wall_ms(v); });
    SetIf(row.kernels_per_step,
          [&](int64_t v) { phase.set_kernels_per_step(static_cast<double>(v)); });
    SetIf(row.ops_per_step, [&](int64_t v) { phase.set_ops_per_step(static_cast<double>(v)); });
    SetIf(row.recording_gpu_ns, [&](int64_t v) { phase.set_recording_gpu_ms(Ms(v)); });
    SetIf(row.recording_wall_ns, [&](int64_t v) { phase.set_recording_wall_ms(Ms(v)); });
    SetIf(row.recording_kernels, [&](int64_t v) { phase.set_recording_kernels(v); });
    SetIf(row.recording_ops, [&](int64_t v) { phase.set_recording_ops(v); });
  }
  FillFindings(report.findings, out);
  out.set_document_json(analysis::ToJson(report).ToIndented());
  return out;
}

v1::KernelsReport ToProto(const analysis::KernelsReport& report) {
  v1::KernelsReport out;
  out.set_trace(report.trace);
  out.set_matched(report.matched);
  SetIf(report.matched_ms_per_step, [&](double v) { out.set_matched_ms_per_step(v); });
  out.set_matched_percent(report.matched_pct);
  FillFindings(report.findings, out);
  return out;
}

v1::OpsReport ToProto(const analysis::OpsReport& report) {
  v1::OpsReport out;
  out.set_trace(report.trace);
  out.set_matched(report.matched);
  SetIf(report.self_ms_per_step, [&](double v) { out.set_matched_self_ms_per_step(v); });
  FillFindings(report.findings, out);
  return out;
}

v1::CompareReport ToProto(const analysis::CompareReport& report) {
  v1::CompareReport out;
  out.set_before(report.before);
  out.set_after(report.after);
  for (const std::string& line : analysis::CompareLines(report)) out.add_lines(line);
  SetIf(report.significant, [&](bool v) { out.set_significant(v); });
  out.set_significance(report.significance);
  out.set_calibrated_verdict(report.calibrated_verdict);
  SetIf(report.change_low_ratio, [&](double v) { out.set_change_low_ratio(v); });
  SetIf(report.change_high_ratio, [&](double v) { out.set_change_high_ratio(v); });
  for (const std::string& unlike : report.unlike) out.add_unlike(unlike);
  out.set_condition_met(report.condition_met);
  for (const analysis::FailResult& result : report.conditions) {
    if (report.condition_met && !result.met) continue;  // those that hold are the news
    if (!out.condition().empty()) out.mutable_condition()->append("; ");
    out.mutable_condition()->append(result.text);
  }
  out.set_document_json(analysis::ToJson(report).ToIndented());
  return out;
}

v1::WhatIfReport ToProto(const analysis::WhatIfReport& report, const std::string& shown) {
  v1::WhatIfReport out;
  out.set_trace(shown);
  out.set_bound(report.bound);
  out.set_mechanism(report.mechanism);
  SetIf(report.step_now_ms, [&](double v) { out.set_step_now_ms(v); });
  SetIf(report.step_projected_ms, [&](double v) { out.set_step_projected_ms(v); });
  SetIf(report.img_per_s_now, [&](double v) { out.set_img_per_s_now(v); });
  SetIf(report.img_per_s_projected, [&](double v) { out.set_img_per_s_projected(v); });
  out.set_removed_gpu_ms(report.removed_gpu_ms);
  out.set_removed_launches(report.removed_launches);
  out.set_caveat(report.caveat);
  out.set_document_json(analysis::ToJson(report).ToIndented());
  return out;
}

v1::MetricValue ToMetricValue(const JsonValue& value) {
  v1::MetricValue out;
  if (value.is_bool()) out.set_bool_value(value.bool_value());
  if (value.is_int()) out.set_int_value(value.int_value());
  if (value.is_double()) out.set_double_value(value.number());
  if (value.is_string()) out.set_string_value(value.string_value());
  return out;
}

}  // namespace libreyolo::rpc
