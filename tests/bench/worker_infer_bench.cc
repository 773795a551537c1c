// Runs libreyolo-worker on one inference plan, without a daemon, and prints one line of JSON:
// latency and stage medians, the traced step over the untraced one, and how long after its start
// the process reached each stage. The yardstick for the ratio is at most 1.02 on YOLO9-t, batch 1.
//
//   worker_infer_bench WORKER [--weights FILE] [--size S] [--source PATH] [--imgsz N] [--batch N]
//                      [--warmup N] [--runs N] [--threads N] [--staging DIR] [--no-trace]
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/job/measurement_json.h"
#include "common/json/json_value.h"
#include "tests/support/worker_process.h"

namespace libreyolo {
namespace {

using testing::WorkerProcess;
using worker_link::WorkerMessage;
using worker_link::WorkerPlan;

double MedianMs(std::vector<int64_t> ns) {
  if (ns.empty()) return 0;
  std::sort(ns.begin(), ns.end());
  return static_cast<double>(ns[ns.size() / 2] + ns[(ns.size() - 1) / 2]) / 2e6;
}

bool TakeFlag(const std::string& flag, const std::string& value, WorkerPlan& plan) {
  if (flag == "--weights")
    plan.weights = plan.weights_path = value;
  else if (flag == "--size")
    plan.size = value;
  else if (flag == "--source")
    plan.source_paths = {plan.source = value};
  else if (flag == "--staging")
    plan.staging_dir = value;
  else if (flag == "--imgsz")
    return absl::SimpleAtoi(value, &plan.imgsz);
  else if (flag == "--batch")
    return absl::SimpleAtoi(value, &plan.batch);
  else if (flag == "--warmup")
    return absl::SimpleAtoi(value, &plan.warmup);
  else if (flag == "--runs")
    return absl::SimpleAtoi(value, &plan.runs);
  else if (flag == "--threads")
    return absl::SimpleAtoi(value, &plan.threads);
  else
    return false;
  return true;
}

// Follows the worker to its end and notes when it said what.
absl::StatusOr<job::Measurement> Follow(WorkerProcess& worker, int64_t begin_ns, JsonValue& times) {
  for (;;) {
    LY_ASSIGN_OR_RETURN(const WorkerMessage message, worker.Receive());
    const double at_ms = static_cast<double>(MonotonicNs() - begin_ns) / 1e6;
    if (std::holds_alternative<worker_link::Hello>(message)) times.Set("hello", at_ms);
    if (const auto* stage = std::get_if<worker_link::StageBegan>(&message)) {
      constexpr const char* kNames[] = {"starting", "warming up", "measuring"};
      times.Set(kNames[static_cast<int>(stage->stage)] + (" " + stage->detail), at_ms);
    }
    const auto* progress = std::get_if<worker_link::Progress>(&message);
    if (progress != nullptr && progress->done == 1) times.Set(progress->stage + " 1", at_ms);
    if (const auto* failed = std::get_if<worker_link::Failed>(&message)) return failed->status;
    const auto* finished = std::get_if<worker_link::Finished>(&message);
    if (finished == nullptr) continue;
    times.Set("finished", at_ms);
    LY_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(finished->measurement_json));
    return job::MeasurementFromJson(json);
  }
}

JsonValue Report(const job::Measurement& m) {
  std::vector<int64_t> steps;
  for (const job::TracedStep& step : m.traced_steps) steps.push_back(step.duration_ns);
  JsonValue json;
  json.Set("p50_ms", MedianMs(m.latencies_ns));
  if (!m.latencies_ns.empty()) {
    json.Set(
        "min_ms",
        static_cast<double>(*std::min_element(m.latencies_ns.begin(), m.latencies_ns.end())) / 1e6);
  }
  json.Set("second_window_p50_ms", MedianMs(steps));
  json.Set("second_over_untraced", MedianMs(steps) / MedianMs(m.latencies_ns));
  for (size_t i = 0; !m.traced_steps.empty() && i < m.traced_steps[0].phases_ns.size(); ++i) {
    std::vector<int64_t> phase;
    for (const job::TracedStep& step : m.traced_steps) phase.push_back(step.phases_ns[i].second);
    json.Set(m.traced_steps[0].phases_ns[i].first + "_p50_ms", MedianMs(phase));
  }
  json.Set("op_records", m.op_records);
  json.Set("detections", m.detections);
  json.Set("threads", m.environment.threads);
  json.Set("peak_rss_mb", static_cast<double>(m.peak_rss_bytes) / 1e6);
  json.Set("foreign_cpu_ratio", m.environment.foreign_cpu_ratio);
  return json;
}

absl::Status Run(const std::string& executable, const WorkerPlan& plan) {
  const int64_t begin_ns = MonotonicNs();
  LY_ASSIGN_OR_RETURN(auto worker, WorkerProcess::Start(executable));
  LY_RETURN_IF_ERROR(worker->Send(plan));
  JsonValue times;
  LY_ASSIGN_OR_RETURN(const job::Measurement measurement, Follow(*worker, begin_ns, times));
  worker->Wait();
  times.Set("ended", static_cast<double>(MonotonicNs() - begin_ns) / 1e6);
  JsonValue json = Report(measurement);
  json.Set("ms_since_start", std::move(times));
  printf("%s\n", json.ToCompact().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace libreyolo

int main(int argc, char** argv) {
  libreyolo::worker_link::WorkerPlan plan;
  plan.job_id = "bench";
  plan.device = "cpu";
  plan.weights = "random";
  plan.staging_dir = "/tmp";
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--no-trace") {
      plan.trace = false;
    } else if (i + 1 >= argc || !libreyolo::TakeFlag(flag, argv[++i], plan)) {
      fprintf(stderr, "bad flag %s\n", flag.c_str());
      return 2;
    }
  }
  if (argc < 2) return 2;
  const absl::Status status = libreyolo::Run(argv[1], plan);
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
