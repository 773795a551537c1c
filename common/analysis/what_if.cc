#include "common/analysis/what_if.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/analysis/profile_metrics.h"
#include "common/analysis/verdict.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::analysis {
namespace {

constexpr double kNsPerMs = 1e6;

// What removing one category takes away, per step.
struct Removal {
  double gpu_ms = 0;
  double saved_ms = 0;
  double launches = 0;
};

absl::StatusOr<Removal> RemoveCategory(const Profile& profile, const std::string& text) {
  const std::string wanted = absl::AsciiStrToLower(text);
  const auto found = std::find_if(
      profile.categories.begin(), profile.categories.end(),
      [&](const auto& row) { return absl::StrContains(absl::AsciiStrToLower(row.name), wanted); });
  if (found == profile.categories.end()) {
    if (profile.categories.empty()) {
      return MakeError(
          reason::kUnknownCategory,
          absl::StrCat("no category matching '", text, "'. have: none, the profile has no kernels"),
          {"name a profile taken on a GPU, with a trace",
           "--remove-launches 100 asks what 100 launches per step less would give"},
          {{"category", text}});
    }
    const std::string names =
        absl::StrJoin(profile.categories, ", ",
                      [](std::string* out, const CategoryRow& row) { out->append(row.name); });
    return MakeError(reason::kUnknownCategory,
                     absl::StrCat("no category matching '", text, "'. have: ", names),
                     {"libreyolo profile kernels TRACE shows the categories"},
                     {{"category", text}, {"available", names}});
  }
  Removal removal;
  removal.gpu_ms = found->ms_per_step.value_or(0);
  removal.saved_ms = removal.gpu_ms;
  const double steps = static_cast<double>(profile.window_real_steps);
  if (found->exclusive_ns.has_value() && steps > 0) {
    removal.saved_ms = static_cast<double>(*found->exclusive_ns) / kNsPerMs / steps;
    removal.launches = static_cast<double>(found->launches.value_or(0)) / steps;
    return removal;
  }
  // A profile of the peer: no overlap known, and one call per kernel taken for granted.
  for (const KernelRow& row : profile.kernels) {
    if (row.category == found->name) {
      removal.launches += static_cast<double>(row.count_per_step.value_or(0));
    }
  }
  return removal;
}

double LaunchesOf(const Profile& profile) {
  if (profile.exact.launches_per_step.has_value()) return *profile.exact.launches_per_step;
  return static_cast<double>(profile.launches_per_step.value_or(0));
}

std::string Launches(double count) {
  if (count == std::floor(count)) return absl::StrFormat("%.0f", count);
  return absl::StrFormat("%.1f", count);
}

// The model itself: sets mechanism and projected step.
void Project(const Profile& profile, const Removal& removal, double launches, double step,
             WhatIfReport& report) {
  const double there = LaunchesOf(profile);
  const double overhead = profile.host_overhead_ms_per_step.value_or(0);
  const double busy = profile.exact.gpu_busy_ms.value_or(profile.gpu_busy_ms_per_step.value_or(0));
  const bool host_bound = profile.gpu_util.value_or(0) < kBusyGpuUtil;
  if (IsCpuProfile(profile) || (host_bound && there <= 0)) {
    report.mechanism = "no GPU launches in this profile: there is nothing to remove";
    report.removed_launches = 0;
    report.step_projected_exact_ms = step;
    return;
  }
  report.removed_launches = std::min(launches, there);
  if (host_bound) {
    const double cost_ms = overhead / there;
    const double floor_ms = busy - removal.saved_ms + profile.dataload_ms.value_or(0);
    report.mechanism = absl::StrFormat("host/launch-bound: ~%s fewer launches x ~%.0fus host cost",
                                       Launches(report.removed_launches), cost_ms * 1000);
    report.step_projected_exact_ms =
        std::min(step, std::max(step - report.removed_launches * cost_ms, floor_ms));
    return;
  }
  report.mechanism = absl::StrFormat("compute-bound: ~%.1f ms less GPU work", removal.saved_ms);
  if (removal.saved_ms + 0.005 < removal.gpu_ms) {
    absl::StrAppendFormat(&report.mechanism, " (%.1f ms of it runs beside other kernels)",
                          removal.gpu_ms - removal.saved_ms);
  }
  if (removal.gpu_ms <= 0) {
    report.mechanism = "compute-bound: fewer launches alone save nothing while the GPU is busy";
  }
  report.step_projected_exact_ms = std::min(step, std::max(step - removal.saved_ms, overhead));
}

}  // namespace

absl::StatusOr<WhatIfReport> ProjectWhatIf(const Profile& profile, const WhatIfQuery& query) {
  const bool has_category = query.remove_category.has_value() && !query.remove_category->empty();
  if (!has_category && !query.remove_launches.has_value()) {
    return MakeError(reason::kArgumentInvalid, "specify --remove-category or --remove-launches",
                     {"libreyolo profile kernels TRACE shows the categories"});
  }
  if (query.remove_launches.value_or(0) < 0) {
    return MakeError(reason::kArgumentOutOfRange, "--remove-launches must be 0 or more",
                     {"the profile's launches per step: libreyolo profile get TRACE"});
  }
  Removal removal;
  if (has_category) {
    LY_ASSIGN_OR_RETURN(removal, RemoveCategory(profile, *query.remove_category));
  }
  WhatIfReport report;
  report.trace = profile.trace.value_or("");
  report.bound = profile.bound;
  report.removed_gpu_ms = RoundTo(removal.gpu_ms, 2);
  report.saved_gpu_ms = removal.saved_ms;
  report.step_now_ms = profile.step_ms;
  report.img_per_s_now = profile.img_per_s;
  report.caveat =
      "a rough estimate: the host's cost per launch is an approximation; only a second measurement "
      "is proof";
  const double launches = removal.launches + static_cast<double>(query.remove_launches.value_or(0));
  const std::optional<double> step =
      profile.exact.step_ms.has_value() ? profile.exact.step_ms : profile.step_ms;
  if (!step.has_value()) {
    report.mechanism = "the profile does not tell how long a step takes";
    return report;
  }
  if (profile.gpu == GpuState::kNotRecorded) {
    report.mechanism = "the GPU was not recorded: nothing can be projected";
    return report;
  }
  Project(profile, removal, launches, *step, report);
  report.step_projected_ms = RoundTo(*report.step_projected_exact_ms, 1);
  const std::optional<double> batch = ConfigNumber(profile, "batch");
  if (*report.step_projected_exact_ms > 0 && batch.has_value()) {
    // The images of a step follow from the measured rate: the last batch of a data set is short.
    const double images = profile.img_per_s.has_value() && profile.ours
                              ? profile.exact.img_per_s.value_or(*profile.img_per_s) * *step
                              : *batch * 1000;
    report.img_per_s_projected = RoundTo(images / *report.step_projected_exact_ms, 1);
  }
  return report;
}

JsonValue ToJson(const WhatIfReport& report) {
  const auto object = [] { return JsonValue(JsonValue::Object{}); };
  JsonValue json = object();
  json.Set("trace", report.trace.empty() ? JsonValue() : JsonValue(report.trace));
  json.Set("bound", report.bound);
  json.Set("mechanism", report.mechanism);
  JsonValue removed = object();
  removed.Set("gpu_ms", report.removed_gpu_ms);
  const double launches = report.removed_launches;
  removed.Set("launches", launches == std::floor(launches)
                              ? JsonValue(static_cast<int64_t>(launches))
                              : JsonValue(launches));
  json.Set("removed", std::move(removed));
  JsonValue step = object();
  step.Set("now", ToJson(report.step_now_ms));
  step.Set("projected", ToJson(report.step_projected_ms));
  json.Set("step_ms", std::move(step));
  JsonValue rate = object();
  rate.Set("now", ToJson(report.img_per_s_now));
  rate.Set("projected", ToJson(report.img_per_s_projected));
  json.Set("img_per_s", std::move(rate));
  json.Set("caveat", report.caveat);
  json.Set("saved_gpu_ms", report.saved_gpu_ms);
  json.Set("step_projected_exact_ms", ToJson(report.step_projected_exact_ms));
  return json;
}

}  // namespace libreyolo::analysis
