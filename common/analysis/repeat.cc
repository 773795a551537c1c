#include "common/analysis/repeat.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/caveats.h"
#include "common/analysis/combine_gpu_watches.h"
#include "common/analysis/profile_metrics.h"
#include "common/analysis/statistics.h"
#include "common/analysis/verdict.h"
#include "common/base/check.h"

namespace libreyolo::analysis {
namespace {

// The mean over the trials that know the figure; absent when none does.
template <typename T>
std::optional<double> MeanOf(absl::Span<const Profile> trials, std::optional<T> Profile::*member) {
  std::vector<double> values;
  for (const Profile& trial : trials) {
    if ((trial.*member).has_value()) values.push_back(static_cast<double>(*(trial.*member)));
  }
  if (values.empty()) return std::nullopt;
  return Mean(values);
}

void AverageScalars(absl::Span<const Profile> trials, Profile& out) {
  for (const auto member :
       {&Profile::step_ms, &Profile::gpu_util, &Profile::gpu_util_raw,
        &Profile::gpu_busy_ms_per_step, &Profile::mean_kernel_us, &Profile::memcpy_ms_per_step,
        &Profile::host_overhead_ms_per_step, &Profile::dataload_ms, &Profile::dataload_frac,
        &Profile::tensorcore_pct}) {
    if (const std::optional<double> mean = MeanOf(trials, member)) out.*member = RoundTo(*mean, 3);
  }
  for (const auto member :
       {&Profile::kernels_per_step, &Profile::launches_per_step, &Profile::cuda_mallocs_per_step}) {
    if (const std::optional<double> mean = MeanOf(trials, member)) {
      out.*member = static_cast<int64_t>(std::nearbyint(*mean));
    }
  }
  // Memory peaks are peaks.
  for (const Profile& trial : trials) {
    if (trial.peak_vram_mb.value_or(0) > out.peak_vram_mb.value_or(0)) {
      out.peak_vram_mb = trial.peak_vram_mb;
    }
    if (trial.peak_rss_mb.value_or(0) > out.peak_rss_mb.value_or(0)) {
      out.peak_rss_mb = trial.peak_rss_mb;
    }
    out.memory_pressure |= trial.memory_pressure;
  }
}

void AverageExact(absl::Span<const Profile> trials, Profile& out) {
  std::vector<double> steps;
  std::vector<double> rates;
  for (const Profile& trial : trials) {
    if (trial.exact.step_ms.has_value()) steps.push_back(*trial.exact.step_ms);
    if (trial.exact.img_per_s.has_value()) rates.push_back(*trial.exact.img_per_s);
    if (trial.exact.step_ms.has_value() && trial.exact.img_per_s.has_value()) {
      out.trials.push_back({*trial.exact.img_per_s, *trial.exact.step_ms});
    }
  }
  if (!steps.empty()) out.exact.step_ms = Mean(steps);
  if (!rates.empty()) out.exact.img_per_s = Mean(rates);
}

// Stage and phase times are scalars too.
void AveragePhases(absl::Span<const Profile> trials, Profile& out) {
  if (out.stages_ms.has_value()) {
    for (auto& [name, ms] : *out.stages_ms) {
      std::vector<double> values;
      for (const Profile& trial : trials) {
        if (!trial.stages_ms.has_value()) continue;
        for (const auto& [key, value] : *trial.stages_ms) {
          if (key == name) values.push_back(value);
        }
      }
      ms = RoundTo(Mean(values), 3);
    }
  }
  for (PhaseRow& row : out.phases) {
    std::vector<double> values;
    for (const Profile& trial : trials) {
      for (const PhaseRow& other : trial.phases) {
        if (other.phase == row.phase && other.wall_ms_per_step.has_value()) {
          values.push_back(*other.wall_ms_per_step);
        }
      }
    }
    if (!values.empty()) row.wall_ms_per_step = RoundTo(Mean(values), 3);
  }
}

void PoolLatencies(absl::Span<const Profile> trials, Profile& out) {
  out.latencies_ns.clear();
  out.dataload_ns.clear();
  for (const Profile& trial : trials) {
    out.latencies_ns.insert(out.latencies_ns.end(), trial.latencies_ns.begin(),
                            trial.latencies_ns.end());
    out.dataload_ns.insert(out.dataload_ns.end(), trial.dataload_ns.begin(),
                           trial.dataload_ns.end());
  }
  if (out.latency.has_value() && !out.latencies_ns.empty()) {
    out.latency = SummarizeLatencies(out.latencies_ns);
  }
}

void CombineVerdicts(absl::Span<const Profile> trials, Profile& out) {
  std::map<std::string, int> words;
  for (const Profile& trial : trials) ++words[trial.bound];
  if (words.size() < 2) return;
  std::vector<std::string> parts;
  for (const auto& [word, count] : words) parts.push_back(absl::StrCat(word, " x", count));
  out.bound = kBoundMixed;
  out.bound_why = absl::StrCat("the trials' verdicts differ: ", absl::StrJoin(parts, ", "));
}

// Sums where the trials follow each other, extremes where one trial decides.
void CombineDeviceMemory(absl::Span<const Profile> trials, Profile& out) {
  if (!out.device_memory.has_value()) return;
  job::DeviceMemory sum;
  for (const Profile& trial : trials) {
    if (!trial.device_memory.has_value()) continue;
    const job::DeviceMemory& one = *trial.device_memory;
    sum.steps += one.steps;
    sum.peak_reserved_bytes = std::max(sum.peak_reserved_bytes, one.peak_reserved_bytes);
    sum.allocations += one.allocations;
    sum.frees += one.frees;
    sum.device_allocations += one.device_allocations;
    sum.device_frees += one.device_frees;
    sum.retries += one.retries;
  }
  out.device_memory = sum;
}

// Each finding once, at its gravest, and in how many trials it came up.
void CombineFindings(absl::Span<const Profile> trials, Profile& out) {
  struct Seen {
    job::Finding finding;
    int count = 0;
  };
  std::vector<Seen> seen;
  for (const Profile& trial : trials) {
    for (const job::Finding& finding : trial.findings) {
      auto it = seen.begin();
      while (it != seen.end() && it->finding.code != finding.code) ++it;
      if (it == seen.end()) it = seen.insert(seen.end(), {finding, 0});
      if (finding.severity > it->finding.severity) it->finding = finding;
      ++it->count;
    }
  }
  out.findings.clear();
  for (Seen& entry : seen) {
    if (entry.finding.code == "FEW_SAMPLES" && out.latency.has_value()) {
      // Pooled over the trials there may be enough.
      if (out.latency->n >= 100) continue;
      entry.finding.text =
          absl::StrCat("p99 of ", out.latency->n, " latencies is the maximum or near it");
    } else if (entry.count < static_cast<int>(trials.size())) {
      absl::StrAppend(&entry.finding.text, " (in ", entry.count, " of ", trials.size(), " trials)");
    }
    out.findings.push_back(std::move(entry.finding));
  }
  out.validity = ValidityOf(out.findings);
}

}  // namespace

Profile AggregateTrials(absl::Span<const Profile> trials,
                        absl::Span<const std::string> profile_paths) {
  LY_CHECK(!trials.empty());
  Profile out = trials.back();
  std::vector<double> rates;
  for (const Profile& trial : trials) {
    if (trial.img_per_s.has_value()) rates.push_back(*trial.img_per_s);
  }
  if (trials.size() < 2 || rates.size() < 2) return out;
  AverageScalars(trials, out);
  AverageExact(trials, out);
  AveragePhases(trials, out);
  PoolLatencies(trials, out);
  CombineVerdicts(trials, out);
  CombineDeviceMemory(trials, out);
  if (out.gpu_watch.has_value()) out.gpu_watch = CombineGpuWatches(trials);
  CombineFindings(trials, out);
  out.img_per_s = RoundTo(Mean(rates), 2);
  out.img_per_s_std = RoundTo(Deviation(rates, /*sample=*/false), 2);
  out.img_per_s_n = static_cast<int64_t>(rates.size());
  out.img_per_s_trials = rates;
  out.aggregation = JsonValue(JsonValue::Object{});
  out.aggregation.Set("n", static_cast<int64_t>(rates.size()));
  out.aggregation.Set("profiles",
                      JsonValue(JsonValue::Array(profile_paths.begin(), profile_paths.end())));
  out.aggregation.Set("representative_profile",
                      profile_paths.empty() ? JsonValue() : JsonValue(profile_paths.back()));
  out.aggregation.Set("note",
                      "scalar figures are means over the trials, latencies are pooled; kernel and "
                      "operation lists and the trace are the last trial's");
  out.metrics = MakeMetrics(out);
  out.metrics.emplace_back("img_per_s_std", ToJson(out.img_per_s_std));
  out.metrics.emplace_back("img_per_s_n", ToJson(out.img_per_s_n));
  return out;
}

}  // namespace libreyolo::analysis
