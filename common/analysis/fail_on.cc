#include "common/analysis/fail_on.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/analysis/compare.h"
#include "common/analysis/metrics.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::analysis {
namespace {

absl::StatusOr<double> NumberOf(const Profile& profile, const std::string& metric,
                                const char* side) {
  if (metric == "ms_per_image") {
    if (const std::optional<double> ms = MsPerImage(profile)) return *ms;
  }
  // As compare shows it: the mean of a repeat, where the peer's metrics have the last trial's.
  if (metric == "img_per_s" && profile.img_per_s.has_value()) return *profile.img_per_s;
  const absl::StatusOr<JsonValue> value = GetMetric(profile, metric, "PATH");
  if (!value.ok() && metric != "ms_per_image") {
    return MakeError(reason::kUnknownMetric,
                     absl::StrCat("--fail-on: the ", side, " profile has no metric '", metric, "'"),
                     {"run 'libreyolo profile get PATH' on both to list their metrics"},
                     {{"metric", metric}});
  }
  if (!value.ok() || !value->is_number()) {
    return MakeError(
        reason::kUnknownMetric,
        absl::StrCat("--fail-on: '", metric, "' is no number in the ", side, " profile"),
        {"libreyolo profile get TRACE lists the metrics that it has"}, {{"metric", metric}});
  }
  return value->number();
}

}  // namespace

absl::StatusOr<FailCondition> ParseFailCondition(absl::string_view text) {
  const auto fail = [&](absl::string_view why) {
    return MakeError(reason::kArgumentInvalid, absl::StrCat("--fail-on '", text, "': ", why),
                     {"write METRIC<NUMBER or METRIC>NUMBER, the number a value or a change in per "
                      "cent: 'img_per_s<-5%'"});
  };
  const size_t sign = text.find_first_of("<>");
  if (sign == absl::string_view::npos) return fail("there is no < or >");
  FailCondition condition;
  condition.text = std::string(text);
  condition.metric = std::string(absl::StripAsciiWhitespace(text.substr(0, sign)));
  condition.less = text[sign] == '<';
  if (condition.metric.empty()) return fail("the metric is missing");
  absl::string_view number = absl::StripAsciiWhitespace(text.substr(sign + 1));
  condition.percent = absl::ConsumeSuffix(&number, "%");
  number = absl::StripAsciiWhitespace(number);
  const bool is_decimal = number.find_first_not_of("+-.0123456789eE") == absl::string_view::npos;
  if (!is_decimal || !absl::SimpleAtod(number, &condition.limit) ||
      !std::isfinite(condition.limit)) {
    return fail("the limit is no number");
  }
  return condition;
}

absl::StatusOr<FailResult> EvaluateFailCondition(const FailCondition& condition,
                                                 const Profile& before, const Profile& after) {
  FailResult result;
  result.condition = condition;
  LY_ASSIGN_OR_RETURN(result.before, NumberOf(before, condition.metric, "first"));
  LY_ASSIGN_OR_RETURN(result.after, NumberOf(after, condition.metric, "second"));
  result.value = result.after;
  if (condition.percent) {
    const double change = result.after - result.before;
    result.value = change == 0 ? 0.0
                   : result.before == 0
                       ? std::copysign(std::numeric_limits<double>::infinity(), change)
                       : 100 * change / std::abs(result.before);
  }
  result.met = condition.less ? result.value < condition.limit : result.value > condition.limit;
  result.text = absl::StrFormat("%s: %s -> %s", condition.text, PythonFloat(result.before),
                                PythonFloat(result.after));
  if (condition.percent) absl::StrAppendFormat(&result.text, " (%+.2f%%)", result.value);
  absl::StrAppend(&result.text, result.met ? ": met" : ": not met");
  return result;
}

}  // namespace libreyolo::analysis
