#include "common/analysis/build_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/analysis/caveats.h"
#include "common/analysis/kernel_category.h"
#include "common/analysis/profile_metrics.h"
#include "common/analysis/profile_sources.h"
#include "common/analysis/statistics.h"
#include "common/analysis/verdict.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/job/measurement_json.h"

namespace libreyolo::analysis {
namespace {

constexpr double kNsPerMs = 1e6;

double Ms(int64_t ns) { return static_cast<double>(ns) / kNsPerMs; }

std::optional<double> Rounded(std::optional<double> value, int digits) {
  if (value.has_value()) value = RoundTo(*value, digits);
  return value;
}

// Builds the profile of one trace. Members are filled in an order in which each needs only those
// before it.
// A trace alone does not tell its mode; only inference has a postprocess, and only training goes
// backward.
bool PhasesAreOfInference(const std::vector<PhaseRow>& phases) {
  bool has_postprocess = false;
  for (const PhaseRow& row : phases) {
    if (row.phase == "backward" || row.phase == "optimizer") return false;
    has_postprocess |= row.phase == "postprocess" && row.wall_ms_per_step.has_value();
  }
  return has_postprocess;
}

class Builder {
 public:
  Builder(const trace::RecordedTrace& trace, const TraceFigures& figures,
          const ProfileSources& sources)
      : trace_(trace), figures_(figures), sources_(sources) {}

  Profile Build(const BuildOptions& options);

 private:
  void FillGpuState();
  void FillTimes();
  void FillGpuFigures();
  void FillRows();
  void FillPhases();
  void FillVerdict();

  KernelRow MakeKernelRow(const KernelTotals& totals, int64_t all_ns);
  OpRow MakeOpRow(const OpTotals& totals, int64_t all_self_ns) const;
  const KernelClass& ClassOf(trace::NameId name);

  bool has_steps() const { return figures_.steps > 0; }
  double steps() const { return static_cast<double>(figures_.steps); }
  std::optional<double> PerStep(double value) const {
    if (!has_steps()) return std::nullopt;
    return value / steps();
  }
  // As the peer counts: rounded down.
  std::optional<int64_t> FloorPerStep(int64_t count) const {
    if (!has_steps()) return std::nullopt;
    return count / figures_.steps;
  }
  bool gpu_known() const { return profile_.gpu != GpuState::kNotRecorded; }

  const trace::RecordedTrace& trace_;
  const TraceFigures& figures_;
  const ProfileSources& sources_;
  Profile profile_;
  absl::flat_hash_map<trace::NameId, KernelClass> classes_;
};

Profile Builder::Build(const BuildOptions& options) {
  profile_.ours = true;
  profile_.trace = options.trace_path;
  profile_.model = sources_.model;
  profile_.config = sources_.config;
  if (sources_.inference) profile_.mode = "inference";
  profile_.latency = sources_.latency;
  profile_.stages_ms = sources_.stages_ms;
  profile_.peak_vram_mb = sources_.peak_vram_mb;
  profile_.window_wall_ms = RoundTo(Ms(figures_.window_end_ns - figures_.window_start_ns), 1);
  profile_.window_real_steps = figures_.steps;
  profile_.devices = figures_.devices;
  profile_.completeness = figures_.completeness;
  profile_.queue_delay = figures_.queue_delay;
  FillGpuState();
  FillTimes();
  FillGpuFigures();
  FillRows();
  FillPhases();
  FillVerdict();
  return std::move(profile_);
}

void Builder::FillGpuState() {
  const Completeness& c = figures_.completeness;
  const std::string device = ConfigText(profile_, "device");
  const bool on_gpu = !device.empty() && device != "cpu";
  if (c.kernels > 0) {
    profile_.gpu = GpuState::kRecorded;
  } else if (figures_.launches > 0 || (c.kernels_in_trace == 0 && c.launches_in_trace > 0)) {
    profile_.gpu = GpuState::kNotRecorded;
  } else if (c.kernels_in_trace > c.untimed_kernels || figures_.copy_count > 0) {
    profile_.gpu = GpuState::kRecorded;  // the window itself has no GPU work
  } else {
    profile_.gpu = on_gpu || c.kernels_in_trace > 0 ? GpuState::kNotRecorded : GpuState::kNone;
  }
}

void Builder::FillTimes() {
  std::optional<double> step = sources_.step_ms;
  if (!step.has_value() && has_steps()) {
    step = Ms(figures_.window_end_ns - figures_.window_start_ns) / steps();
    if (figures_.gpu_period_ns.has_value()) step = std::max(*step, Ms(*figures_.gpu_period_ns));
  }
  profile_.exact.step_ms = step;
  profile_.step_ms = Rounded(step, 2);
  profile_.exact.img_per_s = sources_.img_per_s;
  profile_.img_per_s = Rounded(sources_.img_per_s, 2);
  std::optional<double> dataload = sources_.dataload_ms;
  if (!dataload.has_value() && figures_.dataload_ns.has_value()) {
    dataload = PerStep(Ms(*figures_.dataload_ns));
  }
  profile_.dataload_ms = Rounded(dataload, 3);
  std::optional<double> share = sources_.dataload_frac;
  if (!share.has_value() && dataload.has_value() && step.value_or(0) > 0) {
    share = *dataload / *step;
  }
  profile_.dataload_frac = Rounded(share, 3);
}

void Builder::FillGpuFigures() {
  profile_.exact.ops_per_step = PerStep(static_cast<double>(figures_.op_count));
  profile_.exact.launches_per_step = PerStep(static_cast<double>(figures_.launches));
  profile_.exact.graph_launches_per_step = PerStep(static_cast<double>(figures_.graph_launches));
  profile_.exact.host_wait_ms = PerStep(Ms(figures_.host_wait_ns));
  profile_.launches_per_step = FloorPerStep(figures_.launches);
  profile_.cuda_mallocs_per_step = FloorPerStep(figures_.device_allocs);
  profile_.memory_pressure =
      has_steps() && static_cast<double>(figures_.device_allocs) / steps() >= kPressureAllocs;
  if (!gpu_known()) return;
  const double sum_ms = Ms(figures_.sum_ns);
  profile_.exact.gpu_busy_ms = PerStep(Ms(figures_.busy_ns));
  profile_.exact.gpu_sum_ms = PerStep(sum_ms);
  profile_.exact.kernels_per_step = PerStep(static_cast<double>(figures_.completeness.kernels));
  profile_.gpu_busy_ms_per_step = Rounded(profile_.exact.gpu_busy_ms, 2);
  profile_.kernels_per_step = FloorPerStep(figures_.completeness.kernels);
  profile_.unique_kernels = static_cast<int64_t>(figures_.kernels.size());
  profile_.memcpy_ms_per_step = Rounded(PerStep(Ms(figures_.copy_ns)), 3);
  const int64_t kernels = figures_.completeness.kernels;
  profile_.mean_kernel_us =
      kernels == 0 ? 0.0 : RoundTo(sum_ms * 1000 / static_cast<double>(kernels), 2);
  profile_.tensorcore_pct = figures_.sum_ns == 0
                                ? 0.0
                                : RoundTo(100.0 * static_cast<double>(figures_.tensor_ns) /
                                              static_cast<double>(figures_.sum_ns),
                                          1);
  const std::optional<double> step = profile_.exact.step_ms;
  if (step.value_or(0) > 0 && profile_.exact.gpu_busy_ms.has_value()) {
    profile_.gpu_util = RoundTo(std::min(1.0, *profile_.exact.gpu_busy_ms / *step), 3);
    profile_.gpu_util_raw = RoundTo(*profile_.exact.gpu_sum_ms / *step, 3);
    profile_.host_overhead_ms_per_step = RoundTo(
        std::max(0.0, *step - *profile_.exact.gpu_busy_ms - profile_.dataload_ms.value_or(0)), 2);
  } else if (!has_steps() && kernels > 0 && figures_.window_end_ns > figures_.window_start_ns) {
    // Over the span of the recording: a share needs no steps.
    const double span = Ms(figures_.window_end_ns - figures_.window_start_ns);
    profile_.gpu_util = RoundTo(std::min(1.0, Ms(figures_.busy_ns) / span), 3);
    profile_.gpu_util_raw = RoundTo(sum_ms / span, 3);
  }
}

const KernelClass& Builder::ClassOf(trace::NameId name) {
  const auto it = classes_.find(name);
  if (it != classes_.end()) return it->second;
  return classes_.emplace(name, ClassifyKernel(trace_.Name(name))).first->second;
}

KernelRow Builder::MakeKernelRow(const KernelTotals& totals, int64_t all_ns) {
  const KernelClass& kernel_class = ClassOf(totals.name);
  KernelRow row;
  row.kernel = kernel_class.label;
  row.raw_name = trace_.Name(totals.name);
  row.category = kernel_class.category;
  row.tensorcore = kernel_class.tensorcore;
  row.ms_per_step = Rounded(PerStep(Ms(totals.time_ns)), 4);
  row.pct_of_gpu =
      all_ns == 0
          ? 0.0
          : RoundTo(100.0 * static_cast<double>(totals.time_ns) / static_cast<double>(all_ns), 2);
  // A kernel that runs less than once per step still runs: the peer's lower limit.
  if (has_steps()) row.count_per_step = std::max<int64_t>(1, *FloorPerStep(totals.count));
  row.total_ns = totals.time_ns;
  row.total_count = totals.count;
  row.exclusive_ns = totals.exclusive_ns;
  return row;
}

OpRow Builder::MakeOpRow(const OpTotals& totals, int64_t all_self_ns) const {
  OpRow row;
  row.op = trace_.Name(totals.name);
  row.ms_per_step = Rounded(PerStep(Ms(totals.time_ns)), 4);
  row.self_ms_per_step = Rounded(PerStep(Ms(totals.self_ns)), 4);
  row.pct_of_cpu_ops =
      all_self_ns == 0
          ? 0.0
          : RoundTo(100.0 * static_cast<double>(totals.self_ns) / static_cast<double>(all_self_ns),
                    2);
  if (has_steps()) row.count_per_step = std::max<int64_t>(1, *FloorPerStep(totals.count));
  row.total_ns = totals.time_ns;
  row.self_ns = totals.self_ns;
  row.total_count = totals.count;
  return row;
}

void Builder::FillRows() {
  for (const KernelTotals& totals : figures_.kernels) {
    profile_.kernels.push_back(MakeKernelRow(totals, figures_.sum_ns));
  }
  for (const OpTotals& totals : figures_.ops) {
    profile_.ops.push_back(MakeOpRow(totals, figures_.op_self_ns));
  }
  for (const CategoryTotals& totals : figures_.categories) {
    CategoryRow row;
    row.name = totals.name;
    row.pct = RoundTo(
        100.0 * static_cast<double>(totals.time_ns) / static_cast<double>(figures_.sum_ns), 1);
    row.ms_per_step = Rounded(PerStep(Ms(totals.time_ns)), 3);
    row.exclusive_ns = totals.exclusive_ns;
    row.launches = totals.launches;
    profile_.categories.push_back(std::move(row));
  }
}

void Builder::FillPhases() {
  const auto stated_wall = [&](const std::string& phase) -> std::optional<double> {
    for (const auto& [name, ms] : sources_.wall_ms) {
      if (name == phase) return ms;
    }
    return std::nullopt;
  };
  for (const PhaseFigures& figures : figures_.phases) {
    PhaseRow row;
    row.phase = figures.name;
    if (gpu_known()) row.gpu_ms_per_step = Rounded(PerStep(Ms(figures.gpu_ns)), 3);
    std::optional<double> wall = stated_wall(figures.name);
    if (!wall.has_value() && figures.spans > 0) wall = PerStep(Ms(figures.wall_ns));
    row.wall_ms_per_step = Rounded(wall, 2);
    if (gpu_known()) row.kernels_per_step = FloorPerStep(figures.kernel_count);
    row.ops_per_step = FloorPerStep(figures.op_count);
    row.unique_kernels = static_cast<int64_t>(figures.kernels.size());
    if (!has_steps()) {
      if (gpu_known()) row.recording_gpu_ns = figures.gpu_ns;
      if (gpu_known()) row.recording_kernels = figures.kernel_count;
      if (figures.spans > 0) row.recording_wall_ns = figures.wall_ns;
      row.recording_ops = figures.op_count;
    }
    profile_.phases.push_back(std::move(row));
    auto& kernels = profile_.kernels_by_phase.emplace_back(figures.name, std::vector<KernelRow>());
    for (const KernelTotals& totals : figures.kernels) {
      kernels.second.push_back(MakeKernelRow(totals, figures.gpu_ns));
      kernels.second.back().exclusive_ns.reset();
    }
    int64_t self_ns = 0;
    for (const OpTotals& totals : figures.ops) self_ns += totals.self_ns;
    auto& ops = profile_.ops_by_phase.emplace_back(figures.name, std::vector<OpRow>());
    for (const OpTotals& totals : figures.ops) ops.second.push_back(MakeOpRow(totals, self_ns));
  }
}

void Builder::FillVerdict() {
  VerdictInput input;
  input.inference = sources_.inference || PhasesAreOfInference(profile_.phases);
  input.gpu = profile_.gpu;
  input.step_ms = profile_.exact.step_ms;
  input.dataload_ms = profile_.dataload_ms;
  input.gpu_util = profile_.gpu_util;
  if (profile_.exact.gpu_busy_ms.has_value() && profile_.exact.step_ms.value_or(0) > 0) {
    input.gpu_util = std::min(1.0, *profile_.exact.gpu_busy_ms / *profile_.exact.step_ms);
  }
  if (!has_steps() && figures_.dataload_ns.has_value()) {
    // Without steps the shares are over the recording.
    input.of_recording = true;
    input.step_ms = Ms(figures_.window_end_ns - figures_.window_start_ns);
    input.dataload_ms = Ms(*figures_.dataload_ns);
  }
  input.host_overhead_ms = profile_.host_overhead_ms_per_step;
  input.kernels_per_step = profile_.exact.kernels_per_step.value_or(0);
  input.mean_kernel_us = profile_.mean_kernel_us.value_or(0);
  input.copies = figures_.copy_count;
  if (has_steps()) {
    input.device_allocs_per_step = static_cast<double>(figures_.device_allocs) / steps();
  }
  input.launches_without_gpu =
      figures_.launches > 0 ? figures_.launches : figures_.completeness.launches_in_trace;
  if (!trace_.profiler_messages.empty()) input.recorder_message = trace_.profiler_messages.front();
  if (sources_.stages_ms.has_value()) {
    input.stages_ms = *sources_.stages_ms;
  } else if (!sources_.wall_ms.empty()) {
    input.stages_ms = sources_.wall_ms;
  } else {
    for (const PhaseRow& row : profile_.phases) {
      if (row.wall_ms_per_step.has_value()) {
        input.stages_ms.emplace_back(row.phase, *row.wall_ms_per_step);
      }
    }
  }
  for (size_t i = 0; i < profile_.ops.size() && i < 5; ++i) {
    input.top_ops.emplace_back(profile_.ops[i].op, profile_.ops[i].pct_of_cpu_ops);
  }
  Verdict verdict = DecideVerdict(input);
  profile_.bound = std::move(verdict.bound);
  profile_.bound_why = std::move(verdict.why);
  profile_.levers = std::move(verdict.levers);
  if (sources_.bound.has_value() && *sources_.bound != profile_.bound) {
    profile_.bound_stored = sources_.bound;
  }
}

void AddMeasurement(const job::Measurement& m, Profile& profile) {
  profile.latencies_ns = m.latencies_ns;
  profile.dataload_ns = m.dataload_ns;
  profile.environment = m.environment;
  profile.weights = m.model;
  profile.gpu_watch = m.gpu_watch;
  profile.device_memory = m.device_memory;
  if (m.peak_rss_bytes > 0) {
    profile.peak_rss_mb = RoundTo(static_cast<double>(m.peak_rss_bytes) / 1e6, 1);
  }
  if (!m.traced || m.traced_steps.empty() || profile.exact.step_ms.value_or(0) <= 0) return;
  TracingCost cost;
  for (const job::TracedStep& step : m.traced_steps) cost.traced_step_ms += Ms(step.duration_ns);
  cost.traced_step_ms /= static_cast<double>(m.traced_steps.size());
  cost.untraced_step_ms = *profile.exact.step_ms;
  cost.ratio = cost.traced_step_ms / cost.untraced_step_ms;
  cost.op_records = m.op_records;
  cost.dropped_records = m.dropped_records;
  profile.tracing = cost;
}

}  // namespace

Latency SummarizeLatencies(const std::vector<int64_t>& latencies_ns) {
  std::vector<double> sorted;
  for (const int64_t latency : latencies_ns) sorted.push_back(Ms(latency));
  Latency latency;
  latency.mean_ms = RoundTo(Mean(sorted), 3);
  std::sort(sorted.begin(), sorted.end());
  latency.p50_ms = RoundTo(LinearQuantile(sorted, 0.5), 3);
  latency.p90_ms = RoundTo(LinearQuantile(sorted, 0.9), 3);
  latency.p99_ms = RoundTo(LinearQuantile(sorted, 0.99), 3);
  latency.min_ms = RoundTo(sorted.front(), 3);
  latency.max_ms = RoundTo(sorted.back(), 3);
  latency.n = static_cast<int64_t>(sorted.size());
  latency.has_limits = true;
  const auto limits = [&](double q) {
    const QuantileLimits found = QuantileConfidence(sorted, q);
    return Latency::Limits{found.low, found.high};
  };
  latency.p50_limits = limits(0.5);
  latency.p90_limits = limits(0.9);
  latency.p99_limits = limits(0.99);
  return latency;
}

absl::StatusOr<std::optional<job::Measurement>> MeasurementOf(const trace::RecordedTrace& trace) {
  const JsonValue* json = trace.libreyolo.Find("measurement");
  if (json == nullptr || json->is_null()) return std::optional<job::Measurement>();
  absl::StatusOr<job::Measurement> measurement = job::MeasurementFromJson(*json);
  if (!measurement.ok()) {
    return MakeError(
        reason::kTraceUnparsable,
        absl::StrCat("the trace's member \"libreyolo\" is damaged: ",
                     std::string(measurement.status().message())),
        {"measure again; a trace that another program changed may lack what was measured"});
  }
  return std::optional<job::Measurement>(*std::move(measurement));
}

absl::StatusOr<Profile> BuildProfile(const trace::RecordedTrace& trace,
                                     const job::Measurement* measurement,
                                     const BuildOptions& options) {
  std::optional<job::Measurement> own;
  if (measurement == nullptr) {
    LY_ASSIGN_OR_RETURN(own, MeasurementOf(trace));
    if (own.has_value()) measurement = &*own;
  }
  ProfileSources sources;
  if (measurement != nullptr) {
    sources = SourcesOf(*measurement);
  } else if (options.sibling_summary != nullptr) {
    sources = SourcesOf(*options.sibling_summary);
  }
  FigureOptions figure_options;
  figure_options.window = options.window;
  figure_options.all_markers = measurement != nullptr;
  if (measurement != nullptr) figure_options.rest_name = kOtherPhase;
  LY_ASSIGN_OR_RETURN(const TraceFigures figures, ComputeFigures(trace, figure_options));
  Profile profile = Builder(trace, figures, sources).Build(options);
  if (measurement != nullptr) AddMeasurement(*measurement, profile);
  profile.findings = CollectFindings({&trace, &figures, measurement, &profile});
  profile.validity = ValidityOf(profile.findings);
  profile.metrics = MakeMetrics(profile);
  return profile;
}

Profile BuildProfile(const job::Measurement& measurement) {
  const ProfileSources sources = SourcesOf(measurement);
  Profile profile;
  profile.ours = true;
  profile.untraced_layout = true;
  profile.model = sources.model;
  profile.config = sources.config;
  if (sources.inference) profile.mode = "inference";
  profile.exact.step_ms = sources.step_ms;
  profile.exact.img_per_s = sources.img_per_s;
  profile.step_ms = Rounded(sources.step_ms, 3);
  profile.img_per_s = Rounded(sources.img_per_s, 2);
  profile.dataload_ms = Rounded(sources.dataload_ms, 3);
  profile.dataload_frac = Rounded(sources.dataload_frac, 3);
  profile.peak_vram_mb = sources.peak_vram_mb;
  profile.window_real_steps = static_cast<int64_t>(measurement.latencies_ns.size());
  profile.latency = sources.latency;
  profile.stages_ms = sources.stages_ms;
  profile.gpu = measurement.device == "cpu" ? GpuState::kNone : GpuState::kUnknown;
  if (profile.gpu == GpuState::kNone) {
    profile.gpu_util = profile.gpu_util_raw = 0.0;
    profile.gpu_busy_ms_per_step = profile.mean_kernel_us = profile.memcpy_ms_per_step = 0.0;
    profile.tensorcore_pct = profile.host_overhead_ms_per_step = 0.0;
    profile.launches_per_step = profile.kernels_per_step = profile.cuda_mallocs_per_step = 0;
  }
  for (const auto& [name, ms] : sources.wall_ms) {
    PhaseRow row;
    row.phase = name;
    row.wall_ms_per_step = RoundTo(ms, 3);
    if (profile.gpu == GpuState::kNone) {
      row.gpu_ms_per_step = 0.0;
      row.kernels_per_step = 0;
    }
    row.ops_per_step = 0;
    profile.phases.push_back(std::move(row));
  }
  VerdictInput input;
  input.inference = sources.inference;
  input.gpu = profile.gpu;
  input.step_ms = sources.step_ms;
  input.dataload_ms = sources.dataload_ms;
  input.stages_ms = sources.wall_ms;
  Verdict verdict = DecideVerdict(input);
  profile.bound = std::move(verdict.bound);
  profile.bound_why = std::move(verdict.why);
  profile.levers = std::move(verdict.levers);
  AddMeasurement(measurement, profile);
  profile.findings = CollectFindings({nullptr, nullptr, &measurement, &profile});
  profile.validity = ValidityOf(profile.findings);
  profile.metrics = MakeMetrics(profile);
  return profile;
}

}  // namespace libreyolo::analysis
