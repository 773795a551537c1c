// The lines of `compare`: the peer's first, then what our calibrated rule and the rows say.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/analysis/compare.h"

namespace libreyolo::analysis {
namespace {

// As Python prints a value.
std::string Shown(const std::optional<double>& value) {
  return value.has_value() ? PythonFloat(*value) : "None";
}

std::string Shown(const std::optional<int64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : "None";
}

// " (+129%)", or nothing where there is no old value to relate to.
std::string Change(const BeforeAfter<double>& values) {
  if (!values.before.has_value() || !values.after.has_value() || *values.before == 0) return "";
  return absl::StrFormat(" (%+.0f%%)", 100 * (*values.after - *values.before) / *values.before);
}

std::string Percent(const std::optional<double>& ratio) {
  return ratio.has_value() ? absl::StrFormat("%.0f%%", *ratio * 100) : "None";
}

std::string ContractTag(const CompareReport& report) {
  if (!report.significant.has_value()) return report.significance;
  return *report.significant ? "significant" : "NOT significant";
}

void AddCalibrated(const CompareReport& report, std::vector<std::string>& lines) {
  if (!report.change_low_ratio.has_value()) return;
  lines.push_back(absl::StrFormat(
      "calibrated     %s: img/s %+.1f%% to %+.1f%% (95 %% Welch interval, %.1f degrees of freedom; "
      "these trials could have shown %.1f%%)",
      report.calibrated_verdict, 100 * *report.change_low_ratio, 100 * *report.change_high_ratio,
      report.img_per_s_interval->freedom, 100 * *report.smallest_change_ratio));
}

void AddRows(const char* title, const std::vector<RowChange>& changes,
             std::vector<std::string>& lines) {
  if (changes.empty()) return;
  lines.push_back(title);
  for (const RowChange& change : changes) {
    // Before the name, which may be cut.
    const char* kind = change.kind == RowChange::Kind::kNew    ? "(new)  "
                       : change.kind == RowChange::Kind::kGone ? "(gone) "
                                                               : "";
    lines.push_back(absl::StrFormat("  %+10.3f  %9.3f -> %9.3f  %s%s", change.change_ms(),
                                    change.before_ms, change.after_ms, kind, change.name));
  }
}

}  // namespace

std::vector<std::string> CompareLines(const CompareReport& report) {
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat("img/s          ", Shown(report.img_per_s.before), " -> ",
                               Shown(report.img_per_s.after), Change(report.img_per_s), "  [",
                               ContractTag(report), "]"));
  if (report.ms_per_image.before.has_value() && report.ms_per_image.after.has_value()) {
    lines.push_back(absl::StrCat("ms/image       ", Shown(report.ms_per_image.before), " -> ",
                                 Shown(report.ms_per_image.after), Change(report.ms_per_image),
                                 "   (batch-independent speed)"));
  }
  lines.push_back(absl::StrCat("GPU util       ", Percent(report.gpu_util.before), " -> ",
                               Percent(report.gpu_util.after)));
  lines.push_back(absl::StrCat("host overhead  ", Shown(report.host_overhead_ms_per_step.before),
                               " -> ", Shown(report.host_overhead_ms_per_step.after), " ms/step"));
  lines.push_back(absl::StrCat("launches/step  ", Shown(report.launches_per_step.before), " -> ",
                               Shown(report.launches_per_step.after)));
  lines.push_back(absl::StrCat("verdict        ", report.bound_before, " -> ", report.bound_after));
  if (report.significant.has_value()) {
    lines.push_back(absl::StrCat("significance   ", report.significance));
  }
  AddCalibrated(report, lines);
  if (!report.unlike.empty()) {
    lines.push_back(absl::StrCat("** unlike: ", absl::StrJoin(report.unlike, "; "), " **"));
  }
  if (!report.notes.empty()) {
    lines.push_back(absl::StrCat("differs        ", absl::StrJoin(report.notes, "; ")));
  }
  AddRows("kernels that moved most (ms/step):", report.kernels, lines);
  AddRows("operations that moved most (ms/step):", report.ops, lines);
  for (const FailResult& result : report.conditions) {
    lines.push_back(absl::StrCat("fail-on        ", result.text));
  }
  return lines;
}

}  // namespace libreyolo::analysis
