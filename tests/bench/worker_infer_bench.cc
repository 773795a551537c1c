// Runs libreyolo-worker on one inference plan, without a daemon, and prints one line of JSON: start
// of the process to its first message and to its last, latency percentiles, and the traced step
// over the untraced one (the yardstick is at most 1.02 on YOLO9-t, batch 1).
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

absl::StatusOr<job::Measurement> Finish(WorkerProcess& worker) {
  LY_ASSIGN_OR_RETURN(const std::vector<WorkerMessage> messages, worker.ReceiveToLast());
  if (const auto* failed = std::get_if<worker_link::Failed>(&messages.back())) {
    return failed->status;
  }
  const auto& finished = std::get<worker_link::Finished>(messages.back());
  LY_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(finished.measurement_json));
  return job::MeasurementFromJson(json);
}

JsonValue Report(const job::Measurement& m) {
  std::vector<int64_t> steps;
  for (const job::TracedStep& step : m.traced_steps) steps.push_back(step.duration_ns);
  JsonValue json;
  json.Set("p50_ms", MedianMs(m.latencies_ns));
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
  LY_RETURN_IF_ERROR(worker->Receive().status());
  const int64_t hello_ns = MonotonicNs();
  LY_RETURN_IF_ERROR(worker->Send(plan));
  LY_ASSIGN_OR_RETURN(const job::Measurement measurement, Finish(*worker));
  worker->Wait();
  const int64_t end_ns = MonotonicNs();
  JsonValue json = Report(measurement);
  json.Set("start_to_hello_ms", static_cast<double>(hello_ns - begin_ns) / 1e6);
  json.Set("whole_process_ms", static_cast<double>(end_ns - begin_ns) / 1e6);
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
