#include "server/worker/worker.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/job/measurement_json.h"
#include "server/gpu/nvml.h"
#include "server/worker/capture/capture_clock.h"
#include "server/worker/capture/cupti_source.h"
#include "server/worker/link_observer.h"
#include "server/worker/sampling/gpu_sampler.h"
#include "server/worker/workload/compute_device.h"
#include "server/worker/workload/environment.h"
#include "server/worker/workload/infer_workload.h"
#include "server/worker/workload/train_workload.h"
#include "server/worker_link/worker_channel.h"

namespace libreyolo::worker {
namespace {

using worker_link::DaemonMessage;
using worker_link::WorkerChannel;
using worker_link::WorkerPlan;

absl::StatusOr<WorkerPlan> ReceivePlan(WorkerChannel& channel) {
  LY_ASSIGN_OR_RETURN(DaemonMessage message, channel.Receive());
  if (auto* plan = std::get_if<WorkerPlan>(&message)) return std::move(*plan);
  return MakeError(reason::kCancelled, "the job was cancelled before it began");
}

// Reads the link until it breaks.
void WatchLink(WorkerChannel& channel, LinkObserver& observer) {
  for (;;) {
    const absl::StatusOr<DaemonMessage> message = channel.Receive();
    if (!message.ok()) _exit(kExitLinkLost);
    if (std::holds_alternative<worker_link::Cancel>(*message)) observer.Cancel();
  }
}

// Null on the CPU. Made before the process is on the GPU, so that it knows who was there first.
std::unique_ptr<GpuSampler> MakeGpuSampler(const WorkerPlan& plan) {
  if (plan.device == "cpu") return nullptr;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return std::make_unique<GpuSampler>(
      GpuSampler::Options{.library = gpu::NvmlPath(),
                          .device = NvmlDeviceOf(plan.device, visible == nullptr ? "" : visible),
                          .pid = getpid()});
}

absl::StatusOr<job::Measurement> RunPlan(const WorkerPlan& plan, LinkObserver& observer) {
  LY_RETURN_IF_ERROR(LoadDeviceLibraries(plan.device));
  LY_ASSIGN_OR_RETURN(const auto activities, MakeActivitySource(plan.device, plan.trace));
  const HostProbe host;
  const std::unique_ptr<GpuSampler> sampler = MakeGpuSampler(plan);
  const WorkloadDeps deps{observer, *activities, host, ChooseClock(), sampler.get()};
  if (plan.mode == job::Mode::kTrain) return MakeTrainWorkload(plan, deps)->Run();
  return MakeInferWorkload(plan, deps)->Run();
}

absl::StatusOr<job::Measurement> WatchAndRun(const WorkerPlan& plan, WorkerChannel& channel) {
  static const SystemClock clock;
  auto& observer = *new LinkObserver(channel, clock, {});
  std::thread(WatchLink, std::ref(channel), std::ref(observer)).detach();
  LogInfo("job began", {{"job", plan.job_id}, {"trial", plan.trial}, {"device", plan.device}});
  return RunPlan(plan, observer);
}

// What the kernel refuses because of a limit reads like any other failure where it happens.
absl::Status NameLimit(const absl::Status& status) {
  static constexpr std::pair<int, const char*> kLimits[] = {
      {EFBIG, "--worker-file-size"}, {EMFILE, "--worker-files"}, {EAGAIN, "--worker-processes"}};
  for (const auto& [error, flag] : kLimits) {
    if (!absl::StrContains(status.message(), std::strerror(error))) continue;
    return MakeError(reason::kWorkerLimit,
                     absl::StrCat("the worker ran into a limit: ", status.message()),
                     {absl::StrCat("measure less, or ask the server's admin to raise ", flag)});
  }
  return status;
}

worker_link::WorkerMessage LastMessage(const absl::StatusOr<job::Measurement>& result) {
  if (!result.ok()) return worker_link::Failed{NameLimit(result.status())};
  return worker_link::Finished{job::MeasurementToJson(*result).ToCompact(),
                               result->dropped_records};
}

}  // namespace

int RunWorker(UniqueFd link) {
  // Channel and observer are not destroyed: the thread that reads the link outlives this function.
  auto& channel = *new WorkerChannel(std::move(link));
  if (!channel.Send(worker_link::Hello{BuildId(), getpid()}).ok()) return kExitLinkLost;
  const absl::StatusOr<WorkerPlan> plan = ReceivePlan(channel);
  if (plan.status().code() == absl::StatusCode::kUnavailable) return kExitLinkLost;
  const absl::StatusOr<job::Measurement> result =
      plan.ok() ? WatchAndRun(*plan, channel) : absl::StatusOr<job::Measurement>(plan.status());
  if (!result.ok()) LogError("job failed", {{"error", result.status().ToString()}});
  if (!channel.Send(LastMessage(result)).ok()) return kExitLinkLost;
  return result.ok() ? kExitFinished : kExitFailed;
}

}  // namespace libreyolo::worker
