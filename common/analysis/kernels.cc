#include "common/analysis/kernels.h"

#include <re2/re2.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/analysis/kernel_category.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/profile_metrics.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::analysis {
namespace {

// What "time" sorts by: the finest figure that the profile holds. Rounded percentages, which the
// peer sorts by, put a longer kernel behind a shorter one.
double TimeOf(const KernelRow& row) {
  if (row.total_ns.has_value()) return static_cast<double>(*row.total_ns);
  return row.ms_per_step.value_or(row.pct_of_gpu);
}

int64_t CountOf(const KernelRow& row) {
  return row.total_count.has_value() ? *row.total_count : row.count_per_step.value_or(0);
}

void SortRows(KernelSort sort, std::vector<KernelRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [&](const KernelRow& a, const KernelRow& b) {
    switch (sort) {
      case KernelSort::kCount:
        return CountOf(a) > CountOf(b);
      case KernelSort::kName:
        return a.kernel < b.kernel;
      case KernelSort::kTime:
        break;
    }
    return TimeOf(a) > TimeOf(b);
  });
}

}  // namespace

absl::StatusOr<KernelSort> ParseKernelSort(absl::string_view word) {
  if (word == "time") return KernelSort::kTime;
  if (word == "count") return KernelSort::kCount;
  if (word == "name") return KernelSort::kName;
  return MakeError(reason::kArgumentInvalid, absl::StrCat("unknown sort order '", word, "'"),
                   {"use time, count or name"});
}

std::vector<std::string> PhaseNames(const Profile& profile) {
  std::vector<std::string> names;
  for (const auto& group : profile.kernels_by_phase) names.push_back(group.first);
  for (const auto& group : profile.ops_by_phase) {
    if (std::find(names.begin(), names.end(), group.first) == names.end()) {
      names.push_back(group.first);
    }
  }
  return names;
}

absl::Status UnknownPhase(const Profile& profile, absl::string_view phase) {
  const std::string names = absl::StrJoin(PhaseNames(profile), ", ");
  return MakeError(reason::kUnknownPhase,
                   absl::StrCat("unknown phase '", phase, "'. available: ", names),
                   {"libreyolo profile phases TRACE shows them"},
                   {{"phase", std::string(phase)}, {"available", names}});
}

// A piece of a category's name that no category has, neither in the profile nor at all, is a
// mistake; one that only this profile is without gives no rows.
absl::Status CheckCategory(const Profile& profile, const std::string& text) {
  const std::string wanted = absl::AsciiStrToLower(text);
  std::vector<std::string> names = KernelCategories();
  for (const KernelRow& row : profile.kernels) {
    if (std::find(names.begin(), names.end(), row.category) == names.end())
      names.push_back(row.category);
  }
  for (const std::string& name : names) {
    if (absl::StrContains(absl::AsciiStrToLower(name), wanted)) return absl::OkStatus();
  }
  const std::string list = absl::StrJoin(names, ", ");
  return MakeError(reason::kUnknownCategory,
                   absl::StrCat("no category matching '", text, "'. there are: ", list),
                   {"--category takes a piece of a category's name"},
                   {{"category", text}, {"available", list}});
}

absl::StatusOr<KernelsReport> ReportKernels(const Profile& profile, const KernelQuery& query) {
  if (query.top < 0) {
    return MakeError(reason::kArgumentOutOfRange, "--top must be 0 (all rows) or more");
  }
  RE2::Options options;
  options.set_case_sensitive(false);
  options.set_log_errors(false);
  const RE2 grep(query.grep, options);
  if (!grep.ok()) {
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat("--grep '", query.grep, "': ", grep.error()),
                     {"expressions are RE2's: no look-around, no back-references"});
  }
  std::vector<KernelRow> rows = profile.kernels;
  if (!query.phase.empty()) {
    const std::vector<std::string> names = PhaseNames(profile);
    if (std::find(names.begin(), names.end(), query.phase) == names.end()) {
      return UnknownPhase(profile, query.phase);
    }
    rows.clear();
    for (const auto& [name, phase_rows] : profile.kernels_by_phase) {
      if (name == query.phase) rows = phase_rows;
    }
  }
  KernelsReport report;
  report.trace = profile.trace.value_or("");
  report.phase = query.phase;
  report.on_cpu = IsCpuProfile(profile);
  report.gpu = report.on_cpu ? GpuState::kNone : profile.gpu;
  report.findings = profile.findings;
  report.total = static_cast<int64_t>(rows.size());
  const std::string category = absl::AsciiStrToLower(query.category);
  LY_RETURN_IF_ERROR(CheckCategory(profile, query.category));
  rows.erase(
      std::remove_if(rows.begin(), rows.end(),
                     [&](const KernelRow& row) {
                       if (query.tensorcore && !row.tensorcore) return true;
                       if (!absl::StrContains(absl::AsciiStrToLower(row.category), category)) {
                         return true;
                       }
                       return !query.grep.empty() && !RE2::PartialMatch(row.raw_name, grep) &&
                              !RE2::PartialMatch(row.kernel, grep);
                     }),
      rows.end());
  SortRows(query.sort, rows);
  report.matched = static_cast<int64_t>(rows.size());
  for (const KernelRow& row : rows) {
    if (row.ms_per_step.has_value()) {
      report.matched_ms_per_step = report.matched_ms_per_step.value_or(0) + *row.ms_per_step;
    }
    report.matched_pct += row.pct_of_gpu;
  }
  // Sums of rounded rows, without the dust of adding them up.
  if (report.matched_ms_per_step.has_value()) {
    report.matched_ms_per_step = RoundTo(*report.matched_ms_per_step, 4);
  }
  report.matched_pct = std::min(RoundTo(report.matched_pct, 2), 100.0);
  if (query.top > 0 && report.matched > query.top) rows.resize(static_cast<size_t>(query.top));
  report.rows = std::move(rows);
  return report;
}

JsonValue ToJson(const KernelsReport& report) {
  JsonValue json{JsonValue::Object{}};
  json.Set("trace", report.trace.empty() ? JsonValue() : JsonValue(report.trace));
  json.Set("matched", report.matched);
  JsonValue::Array rows;
  for (const KernelRow& row : report.rows) rows.push_back(RowToJson(row));
  json.Set("kernels", JsonValue(std::move(rows)));
  json.Set("shown", static_cast<int64_t>(report.rows.size()));
  json.Set("total", report.total);
  json.Set("matched_ms_per_step", ToJson(report.matched_ms_per_step));
  json.Set("matched_pct", report.matched_pct);
  if (!report.findings.empty()) json.Set("findings", FindingsToJson(report.findings));
  return json;
}

}  // namespace libreyolo::analysis
