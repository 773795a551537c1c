#include "common/analysis/combine_gpu_watches.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/analysis/statistics.h"

namespace libreyolo::analysis {
namespace {

using job::ForeignProcess;
using job::GpuWatch;
using Watches = std::vector<const GpuWatch*>;

// The trials' values of a figure; those that do not know it are passed over.
std::vector<double> ValuesOf(const Watches& watches, std::optional<double> GpuWatch::*member) {
  std::vector<double> values;
  for (const GpuWatch* watch : watches) {
    if ((watch->*member).has_value()) values.push_back(*(watch->*member));
  }
  return values;
}

std::optional<double> MeanOf(const Watches& watches, std::optional<double> GpuWatch::*member) {
  const std::vector<double> values = ValuesOf(watches, member);
  if (values.empty()) return std::nullopt;
  return Mean(values);
}

std::optional<double> LargestOf(const Watches& watches, std::optional<double> GpuWatch::*member) {
  const std::vector<double> values = ValuesOf(watches, member);
  if (values.empty()) return std::nullopt;
  return *absl::c_max_element(values);
}

template <typename T>
void Raise(std::optional<T>& to, const std::optional<T>& value) {
  if (value.has_value() && (!to.has_value() || *value > *to)) to = value;
}

void AddForeign(const ForeignProcess& process, std::vector<ForeignProcess>& all) {
  const auto known =
      absl::c_find_if(all, [&](const ForeignProcess& one) { return one.pid == process.pid; });
  if (known == all.end()) {
    all.push_back(process);
    return;
  }
  Raise(known->memory_bytes, process.memory_bytes);
  Raise(known->busy_percent, process.busy_percent);
}

}  // namespace

GpuWatch CombineGpuWatches(absl::Span<const Profile> trials) {
  Watches watches;
  GpuWatch out;
  for (const Profile& trial : trials) {
    if (!trial.gpu_watch.has_value()) continue;
    out.unavailable = trial.gpu_watch->unavailable;
    if (trial.gpu_watch->unavailable.empty()) watches.push_back(&*trial.gpu_watch);
  }
  if (watches.empty()) return out;
  out.unavailable.clear();
  out.uuid = watches.back()->uuid;
  out.name = watches.back()->name;
  out.memory_total_bytes = watches.back()->memory_total_bytes;
  double rates = 0;
  double throttled = 0;
  for (const GpuWatch* watch : watches) {
    rates += watch->samples_per_s;
    throttled += watch->throttled_ratio;
    for (const std::string& limit : watch->limits) {
      if (!absl::c_linear_search(out.limits, limit)) out.limits.push_back(limit);
    }
    for (const ForeignProcess& process : watch->foreign) AddForeign(process, out.foreign);
    Raise(out.temperature_max_c, watch->temperature_max_c);
    out.processes_unclear |= watch->processes_unclear;
  }
  const auto count = static_cast<double>(watches.size());
  out.samples_per_s = rates / count;
  out.throttled_ratio = throttled / count;
  const std::vector<double> lowest = ValuesOf(watches, &GpuWatch::sm_clock_min_mhz);
  if (!lowest.empty()) out.sm_clock_min_mhz = *absl::c_min_element(lowest);
  out.sm_clock_mean_mhz = MeanOf(watches, &GpuWatch::sm_clock_mean_mhz);
  out.sm_clock_max_mhz = LargestOf(watches, &GpuWatch::sm_clock_max_mhz);
  out.power_mean_w = MeanOf(watches, &GpuWatch::power_mean_w);
  out.power_max_w = LargestOf(watches, &GpuWatch::power_max_w);
  const std::vector<double> energy = ValuesOf(watches, &GpuWatch::energy_j);
  if (!energy.empty()) out.energy_j = absl::c_accumulate(energy, 0.0);
  out.energy_per_image_j = MeanOf(watches, &GpuWatch::energy_per_image_j);
  return out;
}

}  // namespace libreyolo::analysis
