#include "common/analysis/verdict.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/json/json_value.h"

namespace libreyolo::analysis {
namespace {

// Sums of decimals that should be equal differ in the last bits.
constexpr double kSlack = 1e-9;

// A share as whole per cent that does not cross a threshold by rounding: 79.9 % is not "80 %".
// Rounded by way of the three decimals that profiles state, so that both show one number.
std::string Percent(double ratio) {
  const double percent = ratio * 100;
  const double rounded = std::nearbyint(RoundTo(ratio, 3) * 100);
  for (const double edge : {kBusyGpuUtil, kDataloadShare, kStageShare}) {
    if ((percent + kSlack < edge * 100) != (rounded + kSlack < edge * 100)) {
      return absl::StrFormat("%.1f %%", percent);
    }
  }
  return absl::StrFormat("%.0f %%", rounded);
}

std::string TopOps(const VerdictInput& input) {
  std::vector<std::string> parts;
  for (const auto& [name, percent] : input.top_ops) {
    if (parts.size() == 3) break;
    parts.push_back(absl::StrFormat("%s %.0f %%", name, percent));
  }
  return parts.empty() ? "" : absl::StrCat("; costliest operations: ", absl::StrJoin(parts, ", "));
}

double StageSum(const VerdictInput& input) {
  double sum = 0;
  for (const auto& stage : input.stages_ms) sum += stage.second;
  return sum;
}

double StageOf(const VerdictInput& input, absl::string_view name) {
  for (const auto& stage : input.stages_ms) {
    if (stage.first == name) return stage.second;
  }
  return 0;
}

std::string StageShares(const VerdictInput& input) {
  const double sum = StageSum(input);
  std::vector<std::string> parts;
  for (const auto& [name, ms] : input.stages_ms) {
    parts.push_back(absl::StrFormat("%s %.1f %%", name, 100 * ms / sum));
  }
  return absl::StrJoin(parts, ", ");
}

Verdict NotRecorded(const VerdictInput& input) {
  Verdict verdict;
  verdict.bound = kBoundNotRecorded;
  verdict.why =
      absl::StrCat(input.launches_without_gpu,
                   " kernel launches but no kernel on the GPU: the profiler could not record it");
  if (!input.recorder_message.empty()) {
    absl::StrAppend(&verdict.why, " (", input.recorder_message, ")");
  }
  verdict.levers = {"allow the profiler to read GPU activity (driver permission, one CUPTI client)",
                    "record the trace again; the GPU's figures cannot be known from this one"};
  return verdict;
}

Verdict MemoryPressure(const VerdictInput& input) {
  return {kBoundMemory,
          absl::StrFormat("%.1f allocations and releases of device memory per step; throughput and "
                          "utilisation are unreliable",
                          input.device_allocs_per_step),
          {"a smaller batch or image size", "less activation memory (checkpointing, AMP)",
           "stay away from the limit of the device's memory"}};
}

Verdict Dataloader(const VerdictInput& input, double share) {
  const char* const whole = input.of_recording ? "the recording" : "the step";
  const char* const who = input.gpu == GpuState::kNone ? whole : "the GPU";
  return {kBoundDataloader,
          absl::StrFormat("%s waits %.2f ms for input data, %s of %s", who, *input.dataload_ms,
                          Percent(share), whole),
          {"more --workers", "cache decoded images in memory or on a fast disk",
           "lighter augmentation", "a larger batch"}};
}

// Preprocess or postprocess where one of them is the largest stage and large enough.
std::optional<Verdict> OuterStage(const VerdictInput& input) {
  const double sum = StageSum(input);
  const double pre = StageOf(input, "preprocess");
  const double forward = StageOf(input, "forward");
  const double post = StageOf(input, "postprocess");
  if (post >= forward && post >= pre && post / sum >= kStageShare - kSlack) {
    return Verdict{
        kBoundPostprocess,
        absl::StrFormat("postprocess (NMS) is %s of the step (%.2f ms)", Percent(post / sum), post),
        {"a higher --conf", "a lower --max-det", "fewer classes", "a model without NMS"}};
  }
  if (pre >= forward && pre >= post && pre / sum >= kStageShare - kSlack) {
    return Verdict{
        kBoundPreprocess,
        absl::StrFormat("preprocess is %s of the step (%.2f ms)", Percent(pre / sum), pre),
        {"a larger batch", "smaller or faster to decode images", "preprocessing on the GPU"}};
  }
  return std::nullopt;
}

// "forward is 93 % of the step (15.67 ms)", or that no stage stands out.
std::string LargestStage(const VerdictInput& input) {
  const double sum = StageSum(input);
  if (sum <= 0) return "";
  const auto largest =
      std::max_element(input.stages_ms.begin(), input.stages_ms.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool near_equal =
      input.stages_ms.size() > 2 && largest->second / sum < kStageShare - kSlack;
  if (near_equal) return absl::StrCat("no stage dominates (", StageShares(input), ")");
  // A training step also has time outside of its phases, so the share is of theirs.
  return absl::StrFormat("%s is %s of %s (%.2f ms)", largest->first, Percent(largest->second / sum),
                         input.inference ? "the step" : "the phases' time", largest->second);
}

Verdict OnCpu(const VerdictInput& input) {
  Verdict verdict;
  verdict.bound = kBoundCompute;
  const std::string stage = LargestStage(input);
  verdict.why =
      absl::StrCat("CPU-bound: ", stage.empty() ? "no GPU was used" : stage, TopOps(input));
  verdict.levers = {"a GPU (--device 0)", "more threads, up to the CPUs that are free (--threads)",
                    "a smaller model or image size"};
  return verdict;
}

Verdict CopiesAlone(const VerdictInput& input, const std::string& prefix) {
  return {kBoundHost,
          input.copies > 0
              ? absl::StrFormat("%sthe GPU ran no kernel, only %d copies and fills of memory",
                                prefix, input.copies)
              : absl::StrCat(prefix, "the GPU ran nothing during the measured steps"),
          {"the work itself on the GPU (model.to(device))", "fewer or larger copies"}};
}

Verdict OnGpu(const VerdictInput& input) {
  const std::string stage = input.inference ? LargestStage(input) : "";
  const std::string prefix = stage.empty() ? "" : absl::StrCat(stage, "; ");
  if (!input.gpu_util.has_value()) {
    if (!stage.empty()) return {kBoundCompute, stage, {}};
    if (input.copies > 0 && input.mean_kernel_us == 0) return CopiesAlone(input, prefix);
    return {kBoundUnknown, "the trace does not tell how long a step takes", {}};
  }
  const double util = *input.gpu_util;
  const bool has_steps = input.step_ms.has_value() && !input.of_recording;
  const char* const span = has_steps ? " of the step" : " of the recording";
  if (util >= kBusyGpuUtil - kSlack) {
    return {kBoundCompute,
            absl::StrCat(prefix, "the GPU is busy ", Percent(util), span),
            {"AMP or bfloat16, if it is off", "a smaller model or image size", "a faster GPU"}};
  }
  if (util == 0 && has_steps && input.kernels_per_step == 0) {
    return CopiesAlone(input, prefix);
  }
  Verdict verdict;
  verdict.bound = kBoundHost;
  verdict.why = absl::StrCat(prefix, "the GPU is busy only ", Percent(util), span, ": ");
  if (has_steps) absl::StrAppendFormat(&verdict.why, "%.1f ", input.kernels_per_step);
  absl::StrAppendFormat(&verdict.why, "kernels of %.0f us each", input.mean_kernel_us);
  if (input.host_overhead_ms.has_value()) {
    absl::StrAppend(&verdict.why,
                    absl::StrFormat(", %.2f ms of host overhead", *input.host_overhead_ms));
  }
  verdict.levers = {"a larger batch", "fewer synchronisations (.item(), .cpu())", "CUDA graphs",
                    "fused operations (compiled model)"};
  return verdict;
}

}  // namespace

Verdict DecideVerdict(const VerdictInput& input) {
  if (input.gpu == GpuState::kNotRecorded) return NotRecorded(input);
  if (input.device_allocs_per_step >= kPressureAllocs) return MemoryPressure(input);
  const bool busy = input.gpu_util.value_or(0) >= kBusyGpuUtil - kSlack;
  if (input.inference) {
    if (StageSum(input) > 0) {
      if (std::optional<Verdict> outer = OuterStage(input)) return *std::move(outer);
    } else {
      return {kBoundInference, "not enough timing to tell", {}};
    }
  } else if (input.dataload_ms.has_value() && input.step_ms.value_or(0) > 0 && !busy) {
    const double share = *input.dataload_ms / *input.step_ms;
    if (share >= kDataloadShare - kSlack) return Dataloader(input, share);
  }
  if (input.gpu == GpuState::kNone) return OnCpu(input);
  return OnGpu(input);
}

}  // namespace libreyolo::analysis
