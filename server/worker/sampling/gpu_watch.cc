#include "server/worker/sampling/gpu_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace libreyolo::worker {
namespace {

using job::Finding;
using job::ForeignProcess;
using job::GpuSample;
using job::GpuWatch;

constexpr double kThrottledLimit = 0.01;
constexpr double kClockLimit = 0.05;
constexpr int64_t kInvalidBusyPercent = 25;
constexpr size_t kFewSamples = 3;

// Least, mean and most of what the samples tell of one figure.
struct Spread {
  int64_t count = 0;
  double sum = 0;
  double least = 0;
  double most = 0;

  void Add(double value) {
    least = count == 0 ? value : std::min(least, value);
    most = count == 0 ? value : std::max(most, value);
    sum += value;
    ++count;
  }
  std::optional<double> Mean() const {
    return count == 0 ? std::nullopt : std::optional<double>(sum / static_cast<double>(count));
  }
  std::optional<double> Least() const {
    return count == 0 ? std::nullopt : std::optional<double>(least);
  }
  std::optional<double> Most() const {
    return count == 0 ? std::nullopt : std::optional<double>(most);
  }
};

// A process that holds memory and computes nothing disturbs nobody.
bool MayUse(const ForeignProcess& process) { return process.busy_percent.value_or(1) > 0; }

std::string NameOf(const ForeignProcess& process) {
  return absl::StrCat(process.name.empty() ? "process" : process.name, " (", process.pid, ")");
}

void AddLimits(const std::vector<GpuSample>& samples, GpuWatch& watch) {
  int64_t known = 0;
  int64_t throttled = 0;
  uint64_t all = 0;
  for (const GpuSample& sample : samples) {
    if (!sample.clock_limits.has_value()) continue;
    const auto bits = static_cast<uint64_t>(*sample.clock_limits);
    ++known;
    if (gpu::IsThrottled(bits)) ++throttled;
    all |= bits;
  }
  if (known > 0)
    watch.throttled_ratio = static_cast<double>(throttled) / static_cast<double>(known);
  for (const gpu::ClockLimit& limit : gpu::ClockLimits()) {
    if (limit.throttles && (all & limit.bit) != 0) watch.limits.emplace_back(limit.name);
  }
}

}  // namespace

int64_t OwnPid(const GpuSeries& series, int64_t pid) {
  int64_t newcomer = 0;
  int newcomer_count = 0;
  for (const ForeignProcess& process : series.processes) {
    if (process.pid == pid) return pid;
    if (series.before.count(process.pid) != 0) continue;
    newcomer = process.pid;
    ++newcomer_count;
  }
  return newcomer_count == 1 ? newcomer : 0;
}

GpuWatch Summarize(const GpuSeries& series, int64_t pid, int64_t images) {
  GpuWatch watch;
  watch.unavailable = series.unavailable;
  watch.uuid = series.uuid;
  watch.name = series.name;
  watch.memory_total_bytes = series.memory_total_bytes;
  watch.samples = series.samples;
  if (series.span_ns > 0) {
    watch.samples_per_s =
        static_cast<double>(series.samples.size()) * 1e9 / static_cast<double>(series.span_ns);
  }
  AddLimits(series.samples, watch);
  Spread clock, power, temperature;
  for (const GpuSample& sample : series.samples) {
    if (sample.sm_clock_mhz) clock.Add(static_cast<double>(*sample.sm_clock_mhz));
    if (sample.power_w) power.Add(*sample.power_w);
    if (sample.temperature_c) temperature.Add(static_cast<double>(*sample.temperature_c));
  }
  watch.sm_clock_min_mhz = clock.Least();
  watch.sm_clock_mean_mhz = clock.Mean();
  watch.sm_clock_max_mhz = clock.Most();
  watch.power_mean_w = power.Mean();
  watch.power_max_w = power.Most();
  if (temperature.count > 0) watch.temperature_max_c = static_cast<int64_t>(temperature.most);
  watch.energy_j = series.energy_j;
  if (series.energy_j.has_value() && images > 0) {
    watch.energy_per_image_j = *series.energy_j / static_cast<double>(images);
  }
  const int64_t own = OwnPid(series, pid);
  for (const ForeignProcess& process : series.processes) {
    if (process.pid == own) continue;
    // Without knowing which newcomer is this job, none of them can be called foreign.
    if (own == 0 && series.before.count(process.pid) == 0) {
      watch.processes_unclear = true;
      continue;
    }
    watch.foreign.push_back(process);
  }
  return watch;
}

std::string ForeignUsers(const std::vector<ForeignProcess>& foreign) {
  std::vector<std::string> names;
  for (const ForeignProcess& process : foreign) {
    if (MayUse(process)) names.push_back(NameOf(process));
  }
  return absl::StrJoin(names, ", ");
}

std::vector<Finding> FindInGpuWatch(const GpuWatch& watch) {
  std::vector<Finding> findings;
  const auto add = [&](Finding::Severity severity, const char* code, std::string text) {
    findings.push_back({severity, code, std::move(text)});
  };
  if (!watch.unavailable.empty()) {
    add(Finding::Severity::kInfo, "GPU_NOT_SAMPLED",
        absl::StrCat("clocks, limits and other users of the GPU were not watched: ",
                     watch.unavailable));
    return findings;
  }
  if (watch.samples.size() < kFewSamples) {
    add(Finding::Severity::kInfo, "GPU_NOT_SAMPLED",
        absl::StrCat("the window was too short to watch the GPU: ", watch.samples.size(),
                     " samples"));
  }
  if (watch.throttled_ratio > kThrottledLimit) {
    add(Finding::Severity::kSuspect, "GPU_THROTTLED",
        absl::StrFormat("the GPU was throttled in %.0f %% of the window: %s",
                        100 * watch.throttled_ratio, absl::StrJoin(watch.limits, ", ")));
  }
  if (watch.samples.size() >= kFewSamples && watch.sm_clock_max_mhz.value_or(0) > 0) {
    const double change = 1 - *watch.sm_clock_min_mhz / *watch.sm_clock_max_mhz;
    if (change > kClockLimit) {
      add(Finding::Severity::kSuspect, "GPU_CLOCK_CHANGED",
          absl::StrFormat(
              "the SM clock changed by %.0f %% while latencies were taken: %.0f to %.0f "
              "MHz",
              100 * change, *watch.sm_clock_min_mhz, *watch.sm_clock_max_mhz));
    }
  }
  const std::string users = ForeignUsers(watch.foreign);
  if (!users.empty()) {
    int64_t most = 0;
    for (const ForeignProcess& process : watch.foreign) {
      most = std::max(most, process.busy_percent.value_or(0));
    }
    add(most > kInvalidBusyPercent ? Finding::Severity::kInvalid : Finding::Severity::kSuspect,
        "GPU_SHARED",
        absl::StrCat("another process used the GPU: ", users,
                     most > 0 ? absl::StrCat(", up to ", most, " % of it") : ""));
  } else if (!watch.foreign.empty()) {
    add(Finding::Severity::kInfo, "GPU_NOT_ALONE",
        absl::StrCat(watch.foreign.size(),
                     " other processes hold memory of the GPU and used it "
                     "for nothing"));
  }
  if (watch.processes_unclear) {
    add(Finding::Severity::kInfo, "GPU_OWNER_UNCLEAR",
        "several processes came to the GPU with this job, and which is the job's own cannot be "
        "told from inside a container");
  }
  return findings;
}

}  // namespace libreyolo::worker
