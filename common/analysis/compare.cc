#include "common/analysis/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/analysis/compare_rows.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::analysis {
namespace {

// Within this share of the first profile's throughput two profiles count as the same.
constexpr double kSameRatio = 0.01;
constexpr char kSingleRun[] = "single run, use 'run --repeat N' for a significance call";

std::string BaseName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// What a model is called, so that one file under two paths is one model.
std::string ModelOf(const Profile& profile) {
  if (profile.weights.has_value() && !profile.weights->size.empty()) {
    return absl::StrCat(profile.weights->family, "-", profile.weights->size);
  }
  return BaseName(profile.model.value_or(""));
}

std::string NumberText(const Profile& profile, const char* key) {
  const std::optional<double> value = ConfigNumber(profile, key);
  return value.has_value() ? absl::StrFormat("%g", *value) : std::string();
}

std::vector<std::string> UnlikeThings(const Profile& before, const Profile& after) {
  std::vector<std::string> unlike;
  const auto check = [&](const char* what, const std::string& a, const std::string& b) {
    if (!a.empty() && !b.empty() && a != b)
      unlike.push_back(absl::StrCat(what, ": ", a, " and ", b));
  };
  check("mode", ModeOf(before), ModeOf(after));
  // A model's name differs between modes in any case: a tag for training, a file for inference.
  const bool both_know = before.weights.has_value() == after.weights.has_value();
  if (ModeOf(before) == ModeOf(after) && both_know) {
    check("model", ModelOf(before), ModelOf(after));
  }
  check("image size", NumberText(before, "imgsz"), NumberText(after, "imgsz"));
  check("device", ConfigText(before, "device"), ConfigText(after, "device"));
  check("device", ConfigText(before, "device_name"), ConfigText(after, "device_name"));
  // By name and not by address: both may be one profile.
  if (before.gpu == GpuState::kNotRecorded) {
    unlike.emplace_back("the first profile's GPU was not recorded");
  }
  if (after.gpu == GpuState::kNotRecorded) {
    unlike.emplace_back("the second profile's GPU was not recorded");
  }
  return unlike;
}

std::vector<std::string> SmallerDifferences(const Profile& before, const Profile& after) {
  std::vector<std::string> notes;
  const auto check = [&](const char* key) {
    const JsonValue* a = before.config.Find(key);
    const JsonValue* b = after.config.Find(key);
    if (a != nullptr && b != nullptr && !(*a == *b)) {
      notes.push_back(absl::StrCat(key, ": ", a->ToCompact(), " and ", b->ToCompact()));
    }
  };
  for (const char* key :
       {"batch", "half", "amp", "amp_dtype", "workers", "threads", "conf", "iou", "max_det"}) {
    check(key);
  }
  if (before.weights.has_value() && after.weights.has_value() &&
      before.weights->weights_digest != after.weights->weights_digest) {
    notes.push_back("the weights files differ");
  }
  // The peer measures latency with its tracer running, unless there is no trace.
  if (!before.ours && !after.ours && ModeOf(before) == "inference" &&
      before.trace.has_value() != after.trace.has_value()) {
    notes.push_back("one side was measured under the tracer, the other without");
  }
  const auto doubt = [&](const char* which, const Profile& side) {
    if (side.validity == Validity::kSuspect || side.validity == Validity::kInvalid) {
      notes.push_back(absl::StrCat(which, " profile is ", Name(side.validity)));
    }
  };
  doubt("the first", before);
  doubt("the second", after);
  return notes;
}

void JudgeByContract(const Profile& before, const Profile& after, CompareReport& report) {
  if (!before.img_per_s.has_value() || !after.img_per_s.has_value()) {
    report.significance = "img/s missing";
    return;
  }
  if (report.n_before < 2 || report.n_after < 2 || !before.img_per_s_std.has_value() ||
      !after.img_per_s_std.has_value()) {
    report.significance = kSingleRun;
    return;
  }
  const double a = *before.img_per_s_std;
  const double b = *after.img_per_s_std;
  const double error = std::sqrt(a * a / static_cast<double>(report.n_before) +
                                 b * b / static_cast<double>(report.n_after));
  const double difference = std::abs(*after.img_per_s - *before.img_per_s);
  report.significant = difference > 2 * error;
  report.significance = absl::StrFormat("|d|=%.1f vs 2*SE=%.1f", difference, 2 * error);
}

// The trials' throughputs, and to what they were rounded.
std::vector<double> RatesOf(const Profile& profile, double* resolution) {
  std::vector<double> rates;
  for (const TrialFigures& trial : profile.trials) rates.push_back(trial.img_per_s);
  if (!rates.empty()) return rates;
  *resolution = 0.01;
  return profile.img_per_s_trials;
}

void JudgeCalibrated(const Profile& before, const Profile& after, CompareReport& report) {
  report.calibrated_verdict = "cannot tell";
  double resolution = 0;
  const std::vector<double> a = RatesOf(before, &resolution);
  const std::vector<double> b = RatesOf(after, &resolution);
  report.img_per_s_interval = CompareMeans(a, b, resolution);
  if (!report.img_per_s_interval.has_value()) return;
  const auto per_image = [](const std::vector<double>& rates) {
    std::vector<double> times;
    for (const double rate : rates) times.push_back(rate > 0 ? 1000 / rate : 0);
    return times;
  };
  report.ms_per_image_interval = CompareMeans(per_image(a), per_image(b), 0);
  double mean = 0;
  for (const double rate : a) mean += rate / static_cast<double>(a.size());
  if (mean <= 0) return;
  const WelchInterval& interval = *report.img_per_s_interval;
  report.change_ratio = interval.change / mean;
  report.change_low_ratio = interval.low / mean;
  report.change_high_ratio = interval.high / mean;
  report.smallest_change_ratio = interval.smallest / mean;
  if (interval.low > 0) {
    report.calibrated_verdict = "faster";
  } else if (interval.high < 0) {
    report.calibrated_verdict = "slower";
  }
  if (*report.change_low_ratio > -kSameRatio && *report.change_high_ratio < kSameRatio) {
    report.calibrated_verdict = "same";
  }
}

template <typename T>
JsonValue Pair(const T& before, const T& after) {
  JsonValue json{JsonValue::Object{}};
  json.Set("before", JsonValue(before));
  json.Set("after", JsonValue(after));
  return json;
}

template <typename T>
JsonValue Optional(const std::optional<T>& value) {
  return value.has_value() ? JsonValue(*value) : JsonValue();
}

template <typename T>
JsonValue Pair(const BeforeAfter<T>& values) {
  return Pair(Optional(values.before), Optional(values.after));
}

JsonValue ChangesToJson(const std::vector<RowChange>& changes) {
  JsonValue::Array items;
  for (const RowChange& change : changes) {
    JsonValue& item = items.emplace_back(JsonValue::Object{});
    item.Set("name", change.name);
    if (!change.category.empty()) item.Set("category", change.category);
    item.Set("kind", change.kind == RowChange::Kind::kNew    ? "new"
                     : change.kind == RowChange::Kind::kGone ? "gone"
                                                             : "changed");
    item.Set("before_ms", change.before_ms);
    item.Set("after_ms", change.after_ms);
    item.Set("change_ms", RoundTo(change.change_ms(), 4));
  }
  return JsonValue(std::move(items));
}

JsonValue TextList(const std::vector<std::string>& texts) {
  return JsonValue(JsonValue::Array(texts.begin(), texts.end()));
}

}  // namespace

std::optional<double> MsPerImage(const Profile& profile) {
  if (profile.ours && profile.exact.img_per_s.value_or(0) > 0) {
    return RoundTo(1000 / *profile.exact.img_per_s, 3);
  }
  const std::optional<double> batch = ConfigNumber(profile, "batch");
  if (!batch.has_value() || *batch <= 0 || !profile.step_ms.has_value()) return std::nullopt;
  return RoundTo(*profile.step_ms / *batch, 3);
}

absl::StatusOr<CompareReport> Compare(const Profile& before, const Profile& after,
                                      const CompareQuery& query) {
  CompareReport report;
  report.unlike = UnlikeThings(before, after);
  if (!report.unlike.empty() && !query.force) {
    return MakeError(reason::kNotComparable,
                     absl::StrCat("these are unlike things: ", absl::StrJoin(report.unlike, "; ")),
                     {"--force compares them all the same"});
  }
  report.before = query.before_name;
  report.after = query.after_name;
  report.img_per_s = {before.img_per_s, after.img_per_s};
  report.img_per_s_std = {before.img_per_s_std, after.img_per_s_std};
  report.n_before = before.img_per_s_n.value_or(1);
  report.n_after = after.img_per_s_n.value_or(1);
  report.ms_per_image = {MsPerImage(before), MsPerImage(after)};
  report.gpu_util = {before.gpu_util, after.gpu_util};
  report.host_overhead_ms_per_step = {before.host_overhead_ms_per_step,
                                      after.host_overhead_ms_per_step};
  report.launches_per_step = {before.launches_per_step, after.launches_per_step};
  report.bound_before = before.bound;
  report.bound_after = after.bound;
  JudgeByContract(before, after, report);
  JudgeCalibrated(before, after, report);
  report.notes = SmallerDifferences(before, after);
  report.kernels = KernelChanges(before, after);
  report.ops = OpChanges(before, after);
  for (const FailCondition& condition : query.fail_on) {
    LY_ASSIGN_OR_RETURN(FailResult result, EvaluateFailCondition(condition, before, after));
    report.condition_met |= result.met;
    report.conditions.push_back(std::move(result));
  }
  return report;
}

JsonValue ToJson(const CompareReport& report) {
  const auto object = [] { return JsonValue(JsonValue::Object{}); };
  JsonValue json = object();
  json.Set("before", report.before);
  json.Set("after", report.after);
  JsonValue rate = Pair(report.img_per_s);
  rate.Set("std", JsonValue(JsonValue::Array{Optional(report.img_per_s_std.before),
                                             Optional(report.img_per_s_std.after)}));
  rate.Set("n", JsonValue(JsonValue::Array{JsonValue(report.n_before), JsonValue(report.n_after)}));
  rate.Set("significant", Optional(report.significant));
  rate.Set("significance", report.significance);
  json.Set("img_per_s", std::move(rate));
  json.Set("ms_per_image", Pair(report.ms_per_image));
  json.Set("gpu_util", Pair(report.gpu_util));
  json.Set("host_overhead_ms_per_step", Pair(report.host_overhead_ms_per_step));
  json.Set("launches_per_step", Pair(report.launches_per_step));
  json.Set("bound", Pair(report.bound_before, report.bound_after));
  JsonValue calibrated = object();
  calibrated.Set("verdict", report.calibrated_verdict);
  calibrated.Set("change_ratio", Optional(report.change_ratio));
  calibrated.Set("low_ratio", Optional(report.change_low_ratio));
  calibrated.Set("high_ratio", Optional(report.change_high_ratio));
  calibrated.Set("smallest_change_ratio", Optional(report.smallest_change_ratio));
  if (report.ms_per_image_interval.has_value()) {
    JsonValue per_image = object();
    per_image.Set("change_ms", report.ms_per_image_interval->change);
    per_image.Set("low_ms", report.ms_per_image_interval->low);
    per_image.Set("high_ms", report.ms_per_image_interval->high);
    calibrated.Set("ms_per_image", std::move(per_image));
  }
  json.Set("calibrated", std::move(calibrated));
  json.Set("unlike", TextList(report.unlike));
  json.Set("notes", TextList(report.notes));
  json.Set("kernels", ChangesToJson(report.kernels));
  json.Set("ops", ChangesToJson(report.ops));
  if (!report.conditions.empty()) {
    JsonValue::Array conditions;
    for (const FailResult& result : report.conditions) {
      JsonValue& item = conditions.emplace_back(JsonValue::Object{});
      item.Set("condition", result.condition.text);
      item.Set("before", result.before);
      item.Set("after", result.after);
      item.Set("value", result.value);
      item.Set("met", result.met);
    }
    json.Set("fail_on", JsonValue(std::move(conditions)));
    json.Set("condition_met", report.condition_met);
  }
  return json;
}

}  // namespace libreyolo::analysis
