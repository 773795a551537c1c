#include "common/analysis/ops.h"

#include <algorithm>

#include "common/analysis/kernels.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/profile_metrics.h"
#include "common/analysis/statistics.h"
#include "common/base/error.h"

namespace libreyolo::analysis {

absl::StatusOr<OpsReport> ReportOps(const Profile& profile, const OpQuery& query) {
  if (query.top < 0) {
    return MakeError(reason::kArgumentOutOfRange, "--top must be 0 (all rows) or more");
  }
  OpsReport report;
  report.trace = profile.trace.value_or("");
  report.phase = query.phase;
  report.findings = profile.findings;
  if (query.phase.empty()) {
    report.rows = profile.ops;
  } else {
    const std::vector<std::string> names = PhaseNames(profile);
    if (std::find(names.begin(), names.end(), query.phase) == names.end()) {
      return UnknownPhase(profile, query.phase);
    }
    for (const auto& [name, rows] : profile.ops_by_phase) {
      if (name == query.phase) report.rows = rows;
    }
  }
  report.matched = static_cast<int64_t>(report.rows.size());
  for (const OpRow& row : report.rows) {
    report.has_self_time |= row.self_ns.has_value();
    if (row.self_ms_per_step.has_value()) {
      report.self_ms_per_step = report.self_ms_per_step.value_or(0) + *row.self_ms_per_step;
    }
  }
  if (report.self_ms_per_step.has_value()) {
    report.self_ms_per_step = RoundTo(*report.self_ms_per_step, 4);
  }
  if (query.top > 0 && report.matched > query.top) {
    report.rows.resize(static_cast<size_t>(query.top));
  }
  return report;
}

JsonValue ToJson(const OpsReport& report) {
  JsonValue json{JsonValue::Object{}};
  json.Set("trace", report.trace.empty() ? JsonValue() : JsonValue(report.trace));
  JsonValue::Array rows;
  for (const OpRow& row : report.rows) rows.push_back(RowToJson(row));
  json.Set("ops", JsonValue(std::move(rows)));
  json.Set("matched", report.matched);
  json.Set("shown", static_cast<int64_t>(report.rows.size()));
  if (report.has_self_time) json.Set("self_ms_per_step", ToJson(report.self_ms_per_step));
  if (!report.findings.empty()) json.Set("findings", FindingsToJson(report.findings));
  return json;
}

}  // namespace libreyolo::analysis
