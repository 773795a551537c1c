#include "common/analysis/trace_figures.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "common/analysis/device_activity.h"
#include "common/analysis/kernel_category.h"
#include "common/analysis/launch_index.h"
#include "common/analysis/op_nesting.h"
#include "common/analysis/phase_map.h"
#include "common/analysis/processes.h"
#include "common/analysis/queue_delay.h"
#include "common/analysis/runtime_calls.h"
#include "common/analysis/step_window.h"
#include "common/analysis/totals_by_name.h"
#include "common/base/status_macros.h"

namespace libreyolo::analysis {
namespace {

using trace::RecordedTrace;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

class Computation {
 public:
  Computation(const RecordedTrace& trace, const FigureOptions& options)
      : trace_(trace),
        options_(options),
        processes_(trace),
        queue_delays_(trace.calls),
        kernels_(trace.names.size()),
        ops_(trace.names.size()) {}

  absl::StatusOr<TraceFigures> Run();

 private:
  struct PhaseTotals {
    int64_t gpu_ns = 0;
    int64_t kernel_count = 0;
    int64_t op_count = 0;
    TotalsByName<KernelTotals> kernels;
    TotalsByName<OpTotals> ops;

    explicit PhaseTotals(size_t names) : kernels(names), ops(names) {}
  };
  // Phases of one process, and where theirs stand among all.
  struct ProcessPhases {
    PhaseMap map;
    std::vector<size_t> index;
  };
  struct NameClass {
    uint32_t category = 0;
    bool tensorcore = false;
  };
  enum : int { kNoKernel = -2, kMixed = -1 };  // of a launch call, else its kernels' category

  void FindPhases();
  absl::Status FindWindow();
  void AddCalls();
  void AddKernels();
  void AddKernel(const trace::KernelRecord& kernel);
  void SweepDevices();
  void AddCopies();
  void AddOps();
  void FindGpuPeriod();
  void CollectPhases();
  void CollectCategories();

  bool Inside(int64_t time_ns) const { return window_.Contains(time_ns); }
  // The phase's totals; unphased ones stand last.
  PhaseTotals& Phase(uint32_t process, int64_t time_ns) {
    const ProcessPhases& phases = phases_[process];
    const int phase = phases.map.Find(time_ns);
    return phase_totals_[phase < 0 ? phase_totals_.size() - 1
                                   : phases.index[static_cast<size_t>(phase)]];
  }
  const NameClass& ClassOf(trace::NameId name);

  const RecordedTrace& trace_;
  const FigureOptions options_;
  const Processes processes_;
  std::vector<ProcessPhases> phases_;     // by process
  std::vector<std::string> phase_names_;  // of all
  TraceFigures figures_;

  StepWindow window_;
  std::vector<CallKind> call_kinds_;  // by name
  std::optional<LaunchIndex> launches_;
  std::vector<int> launch_category_;  // by call
  QueueDelays queue_delays_;

  absl::flat_hash_map<trace::NameId, NameClass> classes_;
  std::vector<std::string> category_names_;
  TotalsByName<KernelTotals> kernels_;
  TotalsByName<OpTotals> ops_;
  std::vector<PhaseTotals> phase_totals_;
  DeviceActivity devices_;
  std::vector<int64_t> step_last_end_;
  std::vector<int64_t> category_time_;
};

absl::StatusOr<TraceFigures> Computation::Run() {
  LY_RETURN_IF_ERROR(FindWindow());
  FindPhases();
  AddCalls();
  AddKernels();
  SweepDevices();
  AddCopies();
  AddOps();
  FindGpuPeriod();
  CollectCategories();
  CollectPhases();
  return std::move(figures_);
}

void Computation::FindPhases() {
  for (uint32_t process = 0; process < processes_.count(); ++process) {
    ProcessPhases phases{PhaseMap(trace_, processes_, process), {}};
    for (const std::string& name : phases.map.names()) {
      const auto known = std::find(phase_names_.begin(), phase_names_.end(), name);
      phases.index.push_back(static_cast<size_t>(known - phase_names_.begin()));
      if (known == phase_names_.end()) phase_names_.push_back(name);
    }
    phases_.push_back(std::move(phases));
  }
  phase_totals_.resize(phase_names_.size() + 1, PhaseTotals(trace_.names.size()));
}

absl::Status Computation::FindWindow() {
  LY_ASSIGN_OR_RETURN(window_,
                      ChooseWindow(trace_, processes_, options_.window, options_.all_markers));
  figures_.process_count = static_cast<int64_t>(processes_.count());
  figures_.main_process = processes_.name(processes_.main());
  figures_.window_start_ns = window_.span_start_ns;
  figures_.window_end_ns = window_.span_end_ns;
  figures_.steps = static_cast<int64_t>(window_.step_starts.size());
  figures_.markers_in_trace = window_.markers_in_trace;
  figures_.markers_without_length = window_.markers_without_length;
  figures_.kernels_by_step.resize(window_.step_starts.size());
  step_last_end_.resize(window_.step_starts.size(), kMin);
  return absl::OkStatus();
}

void Computation::AddCalls() {
  call_kinds_.resize(trace_.names.size(), CallKind::kOther);
  std::vector<bool> known(trace_.names.size());
  launch_category_.resize(trace_.calls.size(), kNoKernel);
  for (size_t i = 0; i < trace_.calls.size(); ++i) {
    const trace::RuntimeCall& call = trace_.calls[i];
    if (!known[call.name]) {
      known[call.name] = true;
      call_kinds_[call.name] = KindOfCall(trace_.Name(call.name));
    }
    const CallKind kind = call_kinds_[call.name];
    const bool launch = kind == CallKind::kLaunch || kind == CallKind::kGraphLaunch;
    if (launch) ++figures_.completeness.launches_in_trace;
    if (!Inside(call.start_ns)) continue;
    if (launch) ++figures_.launches;
    if (kind == CallKind::kGraphLaunch) ++figures_.graph_launches;
    if (kind == CallKind::kDeviceAlloc) ++figures_.device_allocs;
    if (kind == CallKind::kSynchronize) figures_.host_wait_ns += call.duration_ns;
  }
  figures_.completeness.launches = figures_.launches;
  launches_.emplace(trace_, processes_, call_kinds_);
}

const Computation::NameClass& Computation::ClassOf(trace::NameId name) {
  const auto [it, inserted] = classes_.emplace(name, NameClass{});
  if (inserted) {
    const KernelClass kernel_class = ClassifyKernel(trace_.Name(name));
    const auto found =
        std::find(category_names_.begin(), category_names_.end(), kernel_class.category);
    it->second.category = static_cast<uint32_t>(found - category_names_.begin());
    it->second.tensorcore = kernel_class.tensorcore;
    if (found == category_names_.end()) {
      category_names_.push_back(kernel_class.category);
      category_time_.push_back(0);
    }
  }
  return it->second;
}

void Computation::AddKernels() {
  figures_.completeness.kernels_in_trace = static_cast<int64_t>(trace_.kernels.size());
  for (const trace::KernelRecord& kernel : trace_.kernels) AddKernel(kernel);
  for (size_t i = 0; i < trace_.calls.size(); ++i) {
    const trace::RuntimeCall& call = trace_.calls[i];
    const CallKind kind = call_kinds_[call.name];
    if ((kind == CallKind::kLaunch || kind == CallKind::kGraphLaunch) && Inside(call.start_ns) &&
        launch_category_[i] == kNoKernel) {
      ++figures_.completeness.launches_without_kernel;
    }
  }
  figures_.queue_delay = queue_delays_.Summarize();
}

void Computation::AddKernel(const trace::KernelRecord& kernel) {
  Completeness& completeness = figures_.completeness;
  const NameClass& name_class = ClassOf(kernel.name);
  const size_t call = launches_->Find(kernel);
  const bool launched = call != LaunchIndex::kNoCall;
  if (launched) {
    int& category = launch_category_[call];
    const int own = static_cast<int>(name_class.category);
    category = category == kNoKernel || category == own ? own : kMixed;
  }
  if (kernel.start_ns <= 0) {
    ++completeness.untimed_kernels;
    return;
  }
  const int64_t time = launched ? trace_.calls[call].start_ns : kernel.start_ns;
  if (!Inside(time)) return;
  ++completeness.kernels;
  ++(launched ? completeness.by_launch : completeness.by_time);
  if (kernel.duration_ns == 0) ++completeness.zero_duration_kernels;
  if (launched && call_kinds_[trace_.calls[call].name] == CallKind::kGraphLaunch) {
    ++completeness.graph_kernels;
  }
  if (launched) queue_delays_.Add(call, kernel.start_ns);
  const int64_t end = kernel.start_ns + kernel.duration_ns;
  if (!window_.step_starts.empty()) {
    const auto after =
        std::upper_bound(window_.step_starts.begin(), window_.step_starts.end(), time);
    const size_t step = static_cast<size_t>(after - window_.step_starts.begin()) - 1;
    if (launched) ++figures_.kernels_by_step[step];
    step_last_end_[step] = std::max(step_last_end_[step], end);
  }
  figures_.sum_ns += kernel.duration_ns;
  if (name_class.tensorcore) figures_.tensor_ns += kernel.duration_ns;
  category_time_[name_class.category] += kernel.duration_ns;
  PhaseTotals& phase = Phase(launched ? processes_.OfThread(trace_.calls[call].thread)
                                      : launches_->ProcessOf(kernel.device),
                             time);
  phase.gpu_ns += kernel.duration_ns;
  ++phase.kernel_count;
  for (KernelTotals* totals : {&kernels_[kernel.name], &phase.kernels[kernel.name]}) {
    totals->time_ns += kernel.duration_ns;
    ++totals->count;
  }
  devices_.Add(kernel, name_class.category);
}

void Computation::SweepDevices() {
  DeviceActivity::Result swept = devices_.Sweep(trace_.names.size(), category_names_.size());
  figures_.devices = std::move(swept.devices);
  figures_.busy_ns = swept.busy_ns;
  for (size_t i = 0; i < category_names_.size(); ++i) {
    figures_.categories.push_back(
        {category_names_[i], category_time_[i], swept.category_exclusive_ns[i], 0});
  }
  for (KernelTotals& totals : kernels_.rows()) {
    totals.exclusive_ns = swept.name_exclusive_ns[totals.name];
  }
  const auto longest = [](const KernelTotals& a, const KernelTotals& b) {
    return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.name < b.name;
  };
  std::sort(kernels_.rows().begin(), kernels_.rows().end(), longest);
  figures_.kernels = std::move(kernels_.rows());
}

void Computation::AddCopies() {
  for (const trace::CopyRecord& copy : trace_.copies) {
    if (copy.start_ns <= 0) continue;
    const size_t call = launches_->Find(copy);
    const int64_t time = call != LaunchIndex::kNoCall ? trace_.calls[call].start_ns : copy.start_ns;
    if (!Inside(time)) continue;
    figures_.copy_ns += copy.duration_ns;
    ++figures_.copy_count;
  }
}

void Computation::AddOps() {
  struct Place {
    PhaseTotals* phase;
    trace::NameId name;
  };
  VisitNestedOps(
      trace_.ops, trace_.threads.size(), [&](int64_t start_ns) { return Inside(start_ns); },
      [&](const trace::OpRecord& op) {
        PhaseTotals& phase = Phase(processes_.OfThread(op.thread), op.start_ns);
        ++phase.op_count;
        for (OpTotals* totals : {&ops_[op.name], &phase.ops[op.name]}) {
          totals->time_ns += op.duration_ns;
          totals->self_ns += op.duration_ns;
          ++totals->count;
        }
        return Place{&phase, op.name};
      },
      [&](const Place& around, int64_t covered_ns) {
        ops_[around.name].self_ns -= covered_ns;
        around.phase->ops[around.name].self_ns -= covered_ns;
      });
  const auto longest = [](const OpTotals& a, const OpTotals& b) {
    return a.self_ns != b.self_ns ? a.self_ns > b.self_ns : a.name < b.name;
  };
  for (const OpTotals& totals : ops_.rows()) {
    figures_.op_count += totals.count;
    figures_.op_time_ns += totals.time_ns;
    figures_.op_self_ns += totals.self_ns;
  }
  std::sort(ops_.rows().begin(), ops_.rows().end(), longest);
  figures_.ops = std::move(ops_.rows());
}

void Computation::FindGpuPeriod() {
  if (figures_.steps < 2) return;
  size_t first = step_last_end_.size();
  size_t last = 0;
  int64_t end = kMin;
  for (size_t i = 0; i < step_last_end_.size(); ++i) {
    if (step_last_end_[i] == kMin) continue;
    if (first == step_last_end_.size()) first = i;
    last = i;
    end = std::max(end, step_last_end_[i]);
  }
  // Only where the GPU is clearly behind: a step's tail that reaches a little into the next one is
  // no backlog, and over few steps its jitter would pass for one.
  const int64_t period = (window_.end_ns - window_.begin_ns) / figures_.steps;
  if (first >= last || end - window_.end_ns < period / 10) return;
  figures_.gpu_period_ns =
      (step_last_end_[last] - step_last_end_[first]) / static_cast<int64_t>(last - first);
}

void Computation::CollectCategories() {
  for (size_t i = 0; i < trace_.calls.size(); ++i) {
    const int category = launch_category_[i];
    if (category >= 0 && Inside(trace_.calls[i].start_ns) &&
        static_cast<size_t>(category) < figures_.categories.size()) {
      ++figures_.categories[static_cast<size_t>(category)].launches;
    }
  }
  auto& categories = figures_.categories;
  categories.erase(std::remove_if(categories.begin(), categories.end(),
                                  [](const CategoryTotals& c) { return c.time_ns <= 0; }),
                   categories.end());
  std::stable_sort(
      categories.begin(), categories.end(),
      [](const CategoryTotals& a, const CategoryTotals& b) { return a.time_ns > b.time_ns; });
}

void Computation::CollectPhases() {
  // Of the process whose steps are counted: those of other ranks run beside it.
  const ProcessPhases& own = phases_[processes_.main()];
  const std::vector<PhaseMap::Wall> own_walls =
      own.map.WallBetween(window_.begin_ns, window_.end_ns);
  std::vector<PhaseMap::Wall> walls(phase_names_.size());
  for (size_t i = 0; i < own_walls.size(); ++i) walls[own.index[i]] = own_walls[i];
  for (size_t i = 0; i < phase_totals_.size(); ++i) {
    PhaseTotals& totals = phase_totals_[i];
    PhaseFigures figures;
    const bool unphased = i + 1 == phase_totals_.size();
    figures.name = unphased ? options_.rest_name : phase_names_[i];
    if (!unphased) {
      figures.wall_ns = walls[i].time_ns;
      figures.spans = walls[i].spans;
      if (figures.name == "dataload" && figures.spans > 0) figures_.dataload_ns = figures.wall_ns;
    }
    figures.gpu_ns = totals.gpu_ns;
    figures.kernel_count = totals.kernel_count;
    figures.op_count = totals.op_count;
    if (figures.spans == 0 && figures.kernel_count == 0 && figures.op_count == 0) continue;
    figures.kernels = std::move(totals.kernels.rows());
    figures.ops = std::move(totals.ops.rows());
    std::sort(figures.kernels.begin(), figures.kernels.end(),
              [](const KernelTotals& a, const KernelTotals& b) {
                return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.name < b.name;
              });
    std::sort(figures.ops.begin(), figures.ops.end(), [](const OpTotals& a, const OpTotals& b) {
      return a.self_ns != b.self_ns ? a.self_ns > b.self_ns : a.name < b.name;
    });
    figures_.phases.push_back(std::move(figures));
  }
  std::stable_sort(figures_.phases.begin(), figures_.phases.end(),
                   [](const PhaseFigures& a, const PhaseFigures& b) {
                     return PhaseOrder(a.name) < PhaseOrder(b.name);
                   });
}

}  // namespace

absl::StatusOr<TraceFigures> ComputeFigures(const RecordedTrace& trace,
                                            const FigureOptions& options) {
  return Computation(trace, options).Run();
}

}  // namespace libreyolo::analysis
