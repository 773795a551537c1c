#include "client/render/text.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/render/table.h"
#include "common/json/json_value.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// A count is a whole number in the peer's profiles; ours may be a fraction per step.
std::string CountText(double count) {
  return count == std::floor(count) && std::abs(count) < 1e15
             ? absl::StrCat(static_cast<int64_t>(count))
             : PythonFloat(RoundTo(count, 2));
}

// "-" stands for what is not known in a table.
std::string Fixed(int digits, bool known, double value) {
  return known ? absl::StrFormat("%.*f", digits, value) : "-";
}

template <typename Row>
std::string Count(const Row& row) {
  return row.has_count_per_step() ? CountText(row.count_per_step()) : "-";
}

// "?" stands for what is not known.
std::string FloatOr(bool known, double value) { return known ? PythonFloat(value) : "?"; }
std::string WholeOr(bool known, double value) {
  return known ? absl::StrFormat("%.0f", value) : "?";
}

// The peer prints "?" for 0 here as well: neither a throughput nor a peak of 0 was measured.
std::string FloatUnlessZero(bool known, double value) {
  return FloatOr(known && value != 0, value);
}

std::string StageLabel(const std::string& name) {
  return name == "postprocess" ? "postprocess/NMS" : name;
}

std::string LatencyText(const v1::LatencySummary& latency) {
  return absl::StrCat("latency  p50 ", PythonFloat(latency.p50_ms()), " ms | p90 ",
                      PythonFloat(latency.p90_ms()), " ms | p99 ", PythonFloat(latency.p99_ms()),
                      " ms");
}

std::string StagesLine(const v1::SummaryReport& report) {
  std::vector<std::string> parts;
  for (const v1::StageTime& stage : report.stages()) {
    parts.push_back(absl::StrCat(StageLabel(stage.name()), " ", PythonFloat(stage.ms()), " ms"));
  }
  return absl::StrCat("stages   ", absl::StrJoin(parts, " | "), "\n");
}

// Percentiles of a small sample have wide limits, and the highest may have none at all.
std::string LimitsLine(const v1::LatencySummary& latency) {
  const auto part = [](const char* name, bool has_low, double low, bool has_high, double high) {
    if (!has_low && !has_high) return absl::StrCat(name, " no limits");
    if (!has_high) return absl::StrCat(name, " from ", PythonFloat(RoundTo(low, 3)));
    if (!has_low) return absl::StrCat(name, " up to ", PythonFloat(RoundTo(high, 3)));
    return absl::StrCat(name, " ", PythonFloat(RoundTo(low, 3)), " to ",
                        PythonFloat(RoundTo(high, 3)));
  };
  if (!latency.has_p50_low_ms() && !latency.has_p50_high_ms()) return "";
  return absl::StrCat("95% CI   ",
                      part("p50", latency.has_p50_low_ms(), latency.p50_low_ms(),
                           latency.has_p50_high_ms(), latency.p50_high_ms()),
                      " | ",
                      part("p90", latency.has_p90_low_ms(), latency.p90_low_ms(),
                           latency.has_p90_high_ms(), latency.p90_high_ms()),
                      " | ",
                      part("p99", latency.has_p99_low_ms(), latency.p99_low_ms(),
                           latency.has_p99_high_ms(), latency.p99_high_ms()),
                      " ms\n");
}

std::string VerdictLine(const v1::SummaryReport& report) {
  return absl::StrCat(">> ", absl::AsciiStrToUpper(report.bound()), ": ", report.bound_reason(),
                      "\n");
}

std::string GpuLines(const v1::SummaryReport& report) {
  return absl::StrCat(
      "GPU util ", WholeOr(report.has_gpu_util_ratio(), report.gpu_util_ratio() * 100), "%  (",
      FloatOr(report.has_gpu_busy_ms(), report.gpu_busy_ms()), " ms busy)  |  Tensor Cores ",
      WholeOr(report.has_tensor_core_percent(), report.tensor_core_percent()), "%  |  peak VRAM ",
      FloatUnlessZero(report.has_peak_vram_mb(), report.peak_vram_mb()), " MB  |  memcpy ",
      FloatOr(report.has_memcpy_ms(), report.memcpy_ms()), " ms\nhost overhead ",
      FloatOr(report.has_host_overhead_ms(), report.host_overhead_ms()), " ms/step  |  ",
      report.has_launches_per_step() ? CountText(report.launches_per_step()) : "?",
      " kernel launches/step\n");
}

std::string CpuLines(const v1::SummaryReport& report) {
  std::string text = absl::StrCat("device ", report.device().empty() ? "cpu" : report.device());
  absl::StrAppend(&text, "  |  ", report.has_threads() ? absl::StrCat(report.threads()) : "?",
                  " threads  |  peak memory ",
                  FloatUnlessZero(report.has_peak_rss_mb(), RoundTo(report.peak_rss_mb(), 1)),
                  " MB\n");
  std::vector<std::string> shares;
  for (const v1::StageTime& stage : report.stages()) {
    shares.push_back(absl::StrFormat("%s %.1f%%", stage.name(), stage.share_ratio() * 100));
  }
  if (!shares.empty()) absl::StrAppend(&text, "phases   ", absl::StrJoin(shares, " | "), "\n");
  return text;
}

std::string KernelMix(const v1::SummaryReport& report) {
  std::string text = "kernel mix:\n";
  for (const v1::CategoryRow& row : report.categories()) {
    absl::StrAppendFormat(&text, "  %-17s %5.1f%%   %s ms/step\n", row.name(), row.percent(),
                          Fixed(1, row.has_ms_per_step(), row.ms_per_step()));
  }
  absl::StrAppend(&text, "top kernels/step:\n");
  for (const v1::KernelRow& row : report.top_kernels()) {
    absl::StrAppendFormat(&text, "  %5.1f%%  %6s ms  x%-4s %s%s\n", row.percent_of_gpu(),
                          Fixed(3, row.has_ms_per_step(), row.ms_per_step()), Count(row),
                          row.label(), row.tensor_core() ? " [TC]" : "");
  }
  return text;
}

// A profile of the peer has inclusive times only; the heading says which ones stand here.
std::string TopOps(const v1::SummaryReport& report) {
  bool has_self = false;
  bool whole = false;
  for (const v1::OpRow& row : report.top_ops()) {
    has_self |= row.has_total_ms_per_step();
    whole |= row.has_recording_count();
  }
  std::string text = whole      ? "top ops of the recording, by self time:\n"
                     : has_self ? "top ops/step, by self time:\n"
                                : "top ops/step (times include nested ops):\n";
  for (const v1::OpRow& row : report.top_ops()) {
    absl::StrAppendFormat(&text, "  %5.1f%%  %6s ms  x%-4s %s\n", row.percent_of_ops(),
                          whole ? Fixed(3, row.has_recording_self_ms(), row.recording_self_ms())
                                : Fixed(3, row.has_self_ms_per_step(), row.self_ms_per_step()),
                          whole ? absl::StrCat(row.recording_count()) : Count(row), row.name());
  }
  return text;
}

// Rows of a recording without steps have totals in place of figures per step.
template <typename Report>
bool OfRecording(const Report& report) {
  for (const auto& row : report.rows()) {
    if (row.has_recording_count()) return true;
  }
  return false;
}

bool HasTotals(const v1::OpsReport& report) {
  for (const v1::OpRow& row : report.rows()) {
    if (row.has_total_ms_per_step() || row.has_recording_ms()) return true;
  }
  return false;
}

// Names keep so much even where that makes a line too long.
constexpr int kLeastName = 8;
// Below this, a column that other figures make up for gives way to the name.
constexpr int kFairName = 16;

int NameWidth(int width, int taken) { return width <= 0 ? 0 : std::max(width - taken, kLeastName); }

bool HasRoom(int width, int taken) { return width <= 0 || width >= taken + kFairName; }

}  // namespace

std::string ThroughputText(const v1::SummaryReport& report) {
  std::string text = FloatUnlessZero(report.has_img_per_s(), report.img_per_s());
  if (report.has_img_per_s_std() && report.trial_count() > 1) {
    absl::StrAppend(&text, " +/- ", PythonFloat(report.img_per_s_std()),
                    " (n=", report.trial_count(), ")");
  }
  return text;
}

std::string FindingsText(const std::string& validity,
                         const google::protobuf::RepeatedPtrField<v1::Finding>& findings) {
  std::string text;
  if (!validity.empty() && validity != "VALID") {
    absl::StrAppend(&text, "validity ", validity, "\n");
  }
  for (const v1::Finding& finding : findings) {
    if (finding.severity() == v1::Finding::INFO) {
      absl::StrAppend(&text, "note: ", finding.text(), "\n");
    } else {
      absl::StrAppend(&text, finding.severity() == v1::Finding::INVALID ? "invalid: " : "suspect: ",
                      finding.text(), "\n");
    }
  }
  return text;
}

std::string DoubtsText(const v1::SummaryReport& report) {
  google::protobuf::RepeatedPtrField<v1::Finding> doubts;
  for (const v1::Finding& finding : report.findings()) {
    if (finding.severity() != v1::Finding::INFO) *doubts.Add() = finding;
  }
  return FindingsText(report.validity(), doubts);
}

std::string SummaryText(const v1::SummaryReport& report) {
  std::string text =
      absl::StrCat("model ", report.model().empty() ? "?" : report.model(), "  |  ",
                   FloatUnlessZero(report.has_img_per_s(), report.img_per_s()), " img/s  |  step ",
                   FloatOr(report.has_step_ms(), report.step_ms()), " ms");
  if (!report.on_cpu()) {
    absl::StrAppend(
        &text, "  |  ", report.has_kernels_per_step() ? CountText(report.kernels_per_step()) : "?",
        " kernels/step @ ~", WholeOr(report.has_mean_kernel_us(), report.mean_kernel_us()), "us");
  }
  absl::StrAppend(&text, "\n");
  if (report.has_latency()) {
    absl::StrAppend(&text, LatencyText(report.latency()), "  (", report.latency().n(),
                    " samples)\n", LimitsLine(report.latency()));
    if (report.stages_size() > 0) absl::StrAppend(&text, StagesLine(report));
  }
  absl::StrAppend(&text, report.on_cpu() ? CpuLines(report) : GpuLines(report));
  if (report.memory_pressure()) {
    absl::StrAppend(&text,
                    "** MEMORY-PRESSURE: VRAM thrash, utilisation/throughput here are unreliable "
                    "**\n");
  }
  if (report.has_tracing_overhead_ratio()) {
    absl::StrAppendFormat(&text, "tracing  a traced step takes %.3f times an untraced one\n",
                          report.tracing_overhead_ratio());
  }
  absl::StrAppend(&text, VerdictLine(report), report.on_cpu() ? TopOps(report) : KernelMix(report),
                  FindingsText(report.validity(), report.findings()));
  return text;
}

std::string PhasesText(const v1::PhasesReport& report, int width) {
  const auto fixed = [](bool per_step, double value, bool whole, double of_recording) {
    return per_step ? Fixed(1, true, value) : Fixed(1, whole, of_recording);
  };
  const auto count = [](bool per_step, double value, bool whole, int64_t of_recording) {
    return per_step ? CountText(value) : whole ? absl::StrCat(of_recording) : "-";
  };
  const bool wide = width <= 0 || width >= 46;
  const auto line = [&](absl::string_view name, absl::string_view gpu, absl::string_view wall,
                        absl::string_view kernels, absl::string_view ops) {
    return wide ? absl::StrFormat("%-11s %8s %8s %8s %7s\n", name, gpu, wall, kernels, ops)
                : absl::StrFormat("%-11s %6s %7s %7s %5s\n", name, gpu, wall, kernels, ops);
  };
  bool is_whole = false;
  std::string text = line("phase", "gpu_ms", "wall_ms", "kernels", "ops");
  for (const v1::PhaseRow& row : report.rows()) {
    if (row.has_recording_ops()) is_whole = true;
    absl::StrAppend(&text, line(row.name(),
                                fixed(row.has_gpu_ms(), row.gpu_ms(), row.has_recording_gpu_ms(),
                                      row.recording_gpu_ms()),
                                fixed(row.has_wall_ms(), row.wall_ms(), row.has_recording_wall_ms(),
                                      row.recording_wall_ms()),
                                count(row.has_kernels_per_step(), row.kernels_per_step(),
                                      row.has_recording_kernels(), row.recording_kernels()),
                                count(row.has_ops_per_step(), row.ops_per_step(),
                                      row.has_recording_ops(), row.recording_ops())));
  }
  if (is_whole)
    absl::StrAppend(&text, "(no step markers: all figures are of the whole recording)\n");
  return text;
}

std::string KernelsText(const v1::KernelsReport& report, int width) {
  constexpr int kFigures = 29;
  const auto category = [](const v1::KernelRow& row) {
    return absl::StrCat("  [", row.category(), "]");
  };
  bool has_categories = true;
  for (const v1::KernelRow& row : report.rows()) {
    has_categories &= HasRoom(width, kFigures + static_cast<int>(category(row).size()));
  }
  const bool whole = OfRecording(report);
  std::string text = absl::StrCat("  %GPU  ", whole ? " total ms   calls" : " ms/step  x/step",
                                  " TC  kernel", has_categories ? "  [category]\n" : "\n");
  for (const v1::KernelRow& row : report.rows()) {
    const std::string tail = has_categories ? category(row) : "";
    const int taken = kFigures + static_cast<int>(tail.size());
    absl::StrAppendFormat(&text, "%6.2f %9s %7s  %s  %s%s\n", row.percent_of_gpu(),
                          whole ? Fixed(3, row.has_recording_ms(), row.recording_ms())
                                : Fixed(3, row.has_ms_per_step(), row.ms_per_step()),
                          whole ? absl::StrCat(row.recording_count()) : Count(row),
                          row.tensor_core() ? "Y" : " ",
                          FitWidth(row.label(), NameWidth(width, taken)), tail);
  }
  return text;
}

std::string OpsText(const v1::OpsReport& report, int width) {
  const bool knows_totals = HasTotals(report);
  const bool has_totals = knows_totals && HasRoom(width, 36);
  const bool whole = OfRecording(report);
  const char* const calls = whole ? "   calls" : "  x/step";
  std::string text = has_totals     ? absl::StrCat(" %self   self ms  total ms", calls, "  op\n")
                     : knows_totals ? absl::StrCat(" %self   self ms", calls, "  op\n")
                                    : "  %cpu   ms/step  x/step  op\n";
  for (const v1::OpRow& row : report.rows()) {
    const std::string self = whole ? Fixed(3, row.has_recording_self_ms(), row.recording_self_ms())
                                   : Fixed(3, row.has_self_ms_per_step(), row.self_ms_per_step());
    const std::string total = whole
                                  ? Fixed(3, row.has_recording_ms(), row.recording_ms())
                                  : Fixed(3, row.has_total_ms_per_step(), row.total_ms_per_step());
    absl::StrAppendFormat(&text, "%6.2f %9s%s %7s  %s\n", row.percent_of_ops(), self,
                          has_totals ? absl::StrFormat(" %9s", total) : "",
                          whole ? absl::StrCat(row.recording_count()) : Count(row),
                          FitWidth(row.name(), NameWidth(width, has_totals ? 36 : 26)));
  }
  return text;
}

std::string CompareText(const v1::CompareReport& report, int width) {
  constexpr int kTitle = 15;  // "host overhead  "
  std::string text;
  for (const std::string& line : report.lines()) {
    // Rows of a table end in a name, which is cut; all other lines are sentences.
    const bool is_row = absl::StartsWith(line, "  ");
    absl::StrAppend(&text, is_row ? FitWidth(line, width) : WrapWords(line, width, kTitle), "\n");
  }
  return text;
}

namespace {

// Whole numbers as the peer has them; below 1, where they would say nothing, two significant
// digits.
std::string Roughly(double value) {
  return std::abs(value) >= 1 || value == 0 ? absl::StrFormat("%.0f", value)
                                            : absl::StrFormat("%.2g", value);
}

}  // namespace

std::string WhatIfText(const v1::WhatIfReport& report) {
  std::string text = absl::StrCat("what-if [", report.bound(), "]: ", report.mechanism(), "\n");
  if (!report.has_step_projected_ms()) return text;
  // Nothing saved must not look like a gain that rounding made.
  const double step = report.step_projected_ms();
  absl::StrAppendFormat(
      &text, "  step   %s -> ~%s ms\n", PythonFloat(report.step_now_ms()),
      step < 10 && step == report.step_now_ms() ? PythonFloat(step) : Roughly(step));
  if (report.has_img_per_s_now() && report.has_img_per_s_projected()) {
    absl::StrAppendFormat(&text, "  img/s  %s -> ~%s", PythonFloat(report.img_per_s_now()),
                          Roughly(report.img_per_s_projected()));
    if (report.img_per_s_now() != 0) {
      double percent = (report.img_per_s_projected() / report.img_per_s_now() - 1) * 100;
      if (std::abs(percent) < 0.5) percent = 0;  // rounding alone must not show as -0%
      absl::StrAppendFormat(&text, " (%+.0f%%)", percent);
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "  (", report.caveat(), ")\n");
  return text;
}

std::string InferResultText(const v1::SummaryReport& report) {
  return absl::StrCat(LatencyText(report.latency()), "  |  ", ThroughputText(report), " img/s\n",
                      StagesLine(report), VerdictLine(report));
}

std::string RunResultText(const v1::SummaryReport& report) {
  return absl::StrCat("img/s: ", ThroughputText(report), "  |  ", report.bound(), "\n");
}

std::string MetricText(const v1::MetricValue& value) {
  switch (value.value_case()) {
    case v1::MetricValue::kBoolValue:
      return value.bool_value() ? "True" : "False";
    case v1::MetricValue::kIntValue:
      return absl::StrCat(value.int_value());
    case v1::MetricValue::kDoubleValue:
      return PythonFloat(value.double_value());
    case v1::MetricValue::kStringValue:
      return value.string_value();
    case v1::MetricValue::VALUE_NOT_SET:
      break;
  }
  return "None";
}

}  // namespace libreyolo::client
