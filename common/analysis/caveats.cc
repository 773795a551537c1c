#include "common/analysis/caveats.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace libreyolo::analysis {
namespace {

using job::Finding;
using Severity = Finding::Severity;

// Up to this share of lost or unmatched records the figures stand.
constexpr double kTolerableLoss = 0.01;
constexpr double kForeignCpu = 0.10;
constexpr double kSteal = 0.02;
constexpr double kTracingOverhead = 1.2;

class Collector {
 public:
  explicit Collector(const CaveatInput& input) : in_(input) {}

  std::vector<Finding> Collect() {
    if (in_.measurement != nullptr) findings_ = in_.measurement->findings;
    if (in_.trace != nullptr) AddReading(in_.trace->counts);
    if (in_.trace != nullptr && in_.figures != nullptr) AddFigures(*in_.figures);
    if (in_.measurement != nullptr) AddMeasurement(*in_.measurement);
    if (in_.profile != nullptr) AddProfile(*in_.profile);
    return std::move(findings_);
  }

 private:
  // A finding that the worker has stated already stays as it stated it.
  void Add(Severity severity, const char* code, std::string text) {
    for (const Finding& finding : findings_) {
      if (finding.code == code) return;
    }
    findings_.push_back({severity, code, std::move(text)});
  }
  // Suspect when `part` is more than a tolerable share of `whole`.
  static Severity ByShare(int64_t part, int64_t whole) {
    return static_cast<double>(part) > kTolerableLoss * static_cast<double>(whole)
               ? Severity::kSuspect
               : Severity::kInfo;
  }

  void AddReading(const trace::ReadCounts& counts);
  void AddFigures(const TraceFigures& figures);
  void AddMeasurement(const job::Measurement& measurement);
  void AddProfile(const Profile& profile);

  const CaveatInput& in_;
  std::vector<Finding> findings_;
};

void Collector::AddReading(const trace::ReadCounts& counts) {
  if (counts.byte_order_mark) {
    Add(Severity::kInfo, "BYTE_ORDER_MARK", "the trace begins with a byte-order mark");
  }
  if (counts.trailing_comma) {
    Add(Severity::kInfo, "TRAILING_COMMA", "a comma stands behind the trace's last event");
  }
  if (counts.loose_numbers > 0) {
    Add(Severity::kInfo, "LOOSE_NUMBERS",
        absl::StrCat(counts.loose_numbers,
                     " events have times that are no JSON numbers (as 007 or 5.), read as meant"));
  }
  if (counts.repaired_names > 0) {
    Add(Severity::kInfo, "NAMES_REPAIRED",
        absl::StrCat(counts.repaired_names,
                     " event names repaired: illegal escapes were taken literally"));
  }
  if (counts.control_escapes > 0) {
    Add(Severity::kInfo, "CONTROL_CHARACTERS",
        absl::StrCat(counts.control_escapes,
                     " names hold escaped control characters, shown as they are written"));
  }
  if (counts.bare_numbers > 0) {
    Add(Severity::kInfo, "BARE_NUMBERS",
        absl::StrCat(counts.bare_numbers,
                     " arguments are inf or nan, which no JSON has; not used"));
  }
  if (counts.replaced_bytes > 0) {
    Add(Severity::kInfo, "TEXT_REPAIRED",
        absl::StrCat(counts.replaced_bytes,
                     " bytes replaced: raw control characters or invalid UTF-8 in texts"));
  }
  if (counts.invalid_times > 0) {
    Add(ByShare(counts.invalid_times, counts.events), "EVENTS_WITHOUT_TIME",
        absl::StrCat(counts.invalid_times, " of ", counts.events,
                     " events dropped: their time is no finite number, or far out of range"));
  }
  if (counts.negative_durations > 0) {
    Add(ByShare(counts.negative_durations, counts.events), "NEGATIVE_DURATIONS",
        absl::StrCat(counts.negative_durations, " events end before they begin; taken as 0 long"));
  }
  if (counts.duplicate_markers > 0) {
    Add(Severity::kInfo, "DUPLICATE_MARKERS",
        absl::StrCat(counts.duplicate_markers, " step markers stand there twice; counted once"));
  }
  if (counts.device_markers > 0) {
    Add(Severity::kInfo, "MARKERS_ON_DEVICE",
        absl::StrCat(counts.device_markers,
                     " step markers on a device's row are copies and do not count as steps"));
  }
}

void Collector::AddFigures(const TraceFigures& figures) {
  const Completeness& c = figures.completeness;
  if (figures.process_count > 1) {
    Add(Severity::kInfo, "SEVERAL_PROCESSES",
        absl::StrCat("the trace holds ", figures.process_count,
                     " processes: steps and wall times are those of process ", figures.main_process,
                     ", kernels, launches and operations per step are of all together"));
  }
  if (figures.markers_in_trace == 0) {
    Add(Severity::kInfo, "NO_STEP_MARKERS",
        "the trace has no step markers (ProfilerStep#N): figures per step are absent, shares are "
        "over the whole recording");
  }
  if (c.untimed_kernels > 0) {
    Add(Severity::kSuspect, "KERNELS_WITHOUT_TIME",
        absl::StrCat(c.untimed_kernels, " of ", c.kernels_in_trace,
                     " kernels have no timestamp; GPU time is a lower bound"));
  }
  if (c.zero_duration_kernels > 0) {
    Add(ByShare(c.zero_duration_kernels, c.kernels), "KERNELS_WITHOUT_LENGTH",
        absl::StrCat(c.zero_duration_kernels, " of ", c.kernels,
                     " kernels have no length; GPU time is a lower bound"));
  }
  if (figures.markers_without_length > 0) {
    Add(Severity::kSuspect, "STEP_MARKERS_WITHOUT_LENGTH",
        absl::StrCat(figures.markers_without_length,
                     " step markers have no length and are no steps here"));
  }
  if (c.by_time > 0) {
    Add(ByShare(c.by_time, c.kernels), "KERNELS_WITHOUT_LAUNCH",
        absl::StrCat(c.by_time, " of ", c.kernels,
                     " kernels have no launch call in the trace and are placed by their own time"));
  }
  if (in_.profile != nullptr && in_.profile->gpu == GpuState::kNotRecorded) {
    Add(Severity::kInvalid, "GPU_NOT_RECORDED",
        absl::StrCat(
            c.launches_in_trace,
            " kernel launches but no kernel on the GPU: the profiler could not record it",
            in_.trace->profiler_messages.empty() ? "" : "; it said: ",
            in_.trace->profiler_messages.empty() ? "" : in_.trace->profiler_messages.front()));
  } else if (c.launches_without_kernel > 0) {
    Add(ByShare(c.launches_without_kernel, c.launches), "LAUNCHES_WITHOUT_KERNEL",
        absl::StrCat(c.launches_without_kernel, " of ", c.launches,
                     " launch calls have no kernel in the trace"));
  }
  if (figures.gpu_period_ns.has_value()) {
    Add(Severity::kInfo, "GPU_BEHIND_HOST",
        absl::StrFormat("the GPU runs behind the host: it needs %.2f ms per step, the host's "
                        "markers last %.2f ms",
                        static_cast<double>(*figures.gpu_period_ns) / 1e6,
                        static_cast<double>(figures.window_end_ns - figures.window_start_ns) / 1e6 /
                            static_cast<double>(std::max<int64_t>(1, figures.steps))));
  }
  if (figures.devices.size() > 1) {
    std::vector<std::string> busy;
    for (const DeviceFigures& device : figures.devices) {
      busy.push_back(
          absl::StrFormat("%d: %.2f ms", device.device, static_cast<double>(device.busy_ns) / 1e6));
    }
    Add(Severity::kInfo, "SEVERAL_DEVICES",
        absl::StrCat("kernels on ", figures.devices.size(), " devices; busy time is their mean (",
                     absl::StrJoin(busy, ", "), ")"));
  }
  const auto [least, most] =
      std::minmax_element(figures.kernels_by_step.begin(), figures.kernels_by_step.end());
  if (!figures.kernels_by_step.empty() && *least != *most) {
    Add(Severity::kInfo, "STEPS_DIFFER",
        absl::StrCat("the steps launch from ", *least, " to ", *most, " kernels"));
  }
}

void Collector::AddMeasurement(const job::Measurement& m) {
  if (m.dropped_records > 0) {
    Add(ByShare(m.dropped_records, m.op_records + m.dropped_records), "RECORDS_DROPPED",
        absl::StrCat(m.dropped_records, " records were dropped while tracing, ", m.op_records,
                     " were kept"));
  }
  if (m.environment.foreign_cpu_ratio > kForeignCpu) {
    Add(Severity::kSuspect, "FOREIGN_CPU_LOAD",
        absl::StrFormat("other processes used %.0f %% of the CPUs while measuring",
                        100 * m.environment.foreign_cpu_ratio));
  }
  if (m.environment.steal_ratio > kSteal) {
    Add(Severity::kSuspect, "CPU_STEAL",
        absl::StrFormat("the hypervisor took %.1f %% of the CPUs while measuring",
                        100 * m.environment.steal_ratio));
  }
  const int64_t n = static_cast<int64_t>(m.latencies_ns.size());
  if (m.mode == job::Mode::kInfer && n > 0 && n < 100) {
    Add(Severity::kInfo, "FEW_SAMPLES",
        absl::StrCat("p99 of ", n,
                     " latencies is the maximum or near it; take --runs 100 or more"));
  }
}

void Collector::AddProfile(const Profile& profile) {
  if (profile.memory_pressure) {
    Add(Severity::kSuspect, "MEMORY_PRESSURE",
        absl::StrCat(profile.cuda_mallocs_per_step.value_or(0),
                     " allocations and releases of device memory per step: utilisation and "
                     "throughput cannot be trusted"));
  }
  if (profile.tracing.has_value() && profile.tracing->ratio > kTracingOverhead) {
    Add(Severity::kInfo, "TRACING_OVERHEAD",
        absl::StrFormat("a traced step takes %.2f times an untraced one; throughput and latency "
                        "come from untraced steps",
                        profile.tracing->ratio));
  }
}

}  // namespace

std::vector<job::Finding> CollectFindings(const CaveatInput& input) {
  return Collector(input).Collect();
}

Validity ValidityOf(const std::vector<job::Finding>& findings) {
  Validity validity = Validity::kValid;
  for (const job::Finding& finding : findings) {
    if (finding.severity == Severity::kInvalid) return Validity::kInvalid;
    if (finding.severity == Severity::kSuspect) validity = Validity::kSuspect;
  }
  return validity;
}

}  // namespace libreyolo::analysis
