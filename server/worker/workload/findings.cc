#include "server/worker/workload/findings.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace libreyolo::worker {
namespace {

using job::Finding;
using job::Measurement;

// A tenth of the machine: below it a two-thread forward is slowed by a few per cent, above it
// OpenMP's barriers begin to wait for a descheduled thread in every layer.
constexpr double kForeignLimit = 0.10;
constexpr double kStealLimit = 0.02;

class Collector {
 public:
  void Add(Finding::Severity severity, const char* code, std::string text) {
    findings_.push_back({severity, code, std::move(text)});
  }
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

void FindInSettings(const Measurement& m, Collector& out) {
  if (m.imgsz != m.imgsz_requested) {
    out.Add(Finding::Severity::kInfo, "IMGSZ_ROUNDED",
            absl::StrCat("image size ", m.imgsz_requested, " was rounded up to ", m.imgsz,
                         ", the next multiple of 32"));
  }
  if (m.model.random_weights) {
    out.Add(Finding::Severity::kInfo, "RANDOM_WEIGHTS",
            m.mode == job::Mode::kTrain
                ? "the weights are initial values: times are real, nothing useful is learnt"
                : "the weights are initial values: times are real, detections are not");
  }
  const job::Environment& env = m.environment;
  const bool over_quota = env.cpu_quota > 0 && env.threads > std::ceil(env.cpu_quota);
  if (env.threads > env.logical_cpus || over_quota) {
    out.Add(Finding::Severity::kSuspect, "THREADS_OVER_CPUS",
            absl::StrCat(env.threads, " compute threads on ", env.logical_cpus, " CPUs",
                         over_quota ? absl::StrFormat(" with a quota of %.2f", env.cpu_quota) : "",
                         ": threads wait for each other"));
  }
}

void FindInLoad(const Measurement& m, Collector& out) {
  const job::Environment& env = m.environment;
  if (env.foreign_cpu_ratio > kForeignLimit) {
    out.Add(Finding::Severity::kSuspect, "FOREIGN_CPU_LOAD",
            absl::StrFormat("other processes used %.0f %% of the CPUs while latencies were taken",
                            env.foreign_cpu_ratio * 100));
  }
  if (env.steal_ratio > kStealLimit) {
    out.Add(Finding::Severity::kSuspect, "CPU_STEAL",
            absl::StrFormat("the hypervisor took %.1f %% of the CPUs while latencies were taken",
                            env.steal_ratio * 100));
  }
}

void FindInTrace(const Measurement& m, int traced_steps_wanted, Collector& out) {
  const auto steps = static_cast<int>(m.traced_steps.size());
  if (steps < traced_steps_wanted) {
    out.Add(Finding::Severity::kInfo, "TRACE_CUT_SHORT",
            absl::StrCat("the second window holds ", steps, " of ", traced_steps_wanted,
                         " iterations: its time was up"));
  }
  if (!m.traced) return;
  if (m.environment.clock != "tsc") {
    out.Add(Finding::Severity::kInfo, "CLOCK_NOT_TSC",
            "op records were stamped by clock_gettime: the time stamp counter is not trusted here, "
            "so recording cost a little more");
  }
  if (m.dropped_records > 0) {
    out.Add(Finding::Severity::kSuspect, "RECORDS_DROPPED",
            absl::StrCat("the trace lacks ", m.dropped_records, " of ",
                         m.op_records + m.dropped_records, " records"));
  }
}

}  // namespace

std::vector<Finding> FindInMeasurement(const Measurement& measurement, bool ratios_meaningful,
                                       int traced_steps_wanted) {
  Collector out;
  FindInSettings(measurement, out);
  if (ratios_meaningful) FindInLoad(measurement, out);
  FindInTrace(measurement, traced_steps_wanted, out);
  return out.Take();
}

}  // namespace libreyolo::worker
