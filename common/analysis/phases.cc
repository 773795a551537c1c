#include "common/analysis/phases.h"

#include "common/analysis/profile_json.h"

namespace libreyolo::analysis {

PhasesReport ReportPhases(const Profile& profile) {
  return {profile.trace.value_or(""), profile.phases, IsCpuProfile(profile), profile.findings};
}

JsonValue ToJson(const PhasesReport& report) {
  JsonValue json{JsonValue::Object{}};
  json.Set("trace", report.trace.empty() ? JsonValue() : JsonValue(report.trace));
  JsonValue::Array rows;
  for (const PhaseRow& row : report.rows) rows.push_back(RowToJson(row));
  json.Set("phases", JsonValue(std::move(rows)));
  if (!report.findings.empty()) json.Set("findings", FindingsToJson(report.findings));
  return json;
}

}  // namespace libreyolo::analysis
