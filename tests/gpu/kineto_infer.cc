// The same inference as `libreyolo profile infer`, recorded by LibTorch's own profiler: what
// scripts/gpu_check holds our traces against. Also runs on the CPU, where it shows that the two see
// the same ops.
//
//   kineto_infer DEVICE HALF BATCH WARMUP RUNS TRACE     kineto_infer cuda:0 fp16 1 10 10 out.json
//
// Prints one JSON object: the mean step in milliseconds without and with the profiler.
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "server/worker/torch_call.h"
#include "server/worker/workload/compute_device.h"
#include "server/worker/workload/infer_pipeline.h"

namespace libreyolo::worker {
namespace {

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

absl::Status RunSteps(InferPipeline& pipeline, const ComputeDevice& device, int64_t first,
                      int64_t count) {
  for (int64_t i = first; i < first + count; ++i) {
    absl::Status status = pipeline.Preprocess(i);
    if (status.ok()) status = pipeline.Forward();
    if (status.ok()) status = pipeline.Postprocess().status();
    if (status.ok()) status = CallTorch([&] { device.Synchronize(); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& device_name, const std::string& type, int batch, int64_t warmup,
                 int64_t runs, const std::string& path) {
  absl::Status status = LoadDeviceLibraries(device_name);
  if (!status.ok()) return status;
  const c10::InferenceMode inference_mode;
  absl::StatusOr<ComputeDevice> device = ComputeDevice::Open(device_name);
  if (!device.ok()) return device.status();
  InferPipeline::Options options;
  options.size = "t";
  options.batch = batch;
  options.half = type != "fp32";
  options.amp_dtype = type == "bf16" ? job::AmpDtype::kBfloat16 : job::AmpDtype::kFloat16;
  auto pipeline = InferPipeline::Make(options, *device);
  if (!pipeline.ok()) return pipeline.status();
  status = RunSteps(**pipeline, *device, 0, warmup);
  if (!status.ok()) return status;

  const int64_t plain_begin_ns = MonotonicNs();
  status = RunSteps(**pipeline, *device, warmup, runs);
  if (!status.ok()) return status;
  const int64_t plain_ns = MonotonicNs() - plain_begin_ns;

  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  if (!device->is_cpu()) activities.insert(impl::ActivityType::CUDA);
  int64_t traced_ns = 0;
  status = CallTorch([&] {
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    const int64_t begin_ns = MonotonicNs();
    status = RunSteps(**pipeline, *device, warmup + runs, runs);
    traced_ns = MonotonicNs() - begin_ns;
    profiler::disableProfiler()->save(path);
  });
  if (!status.ok()) return status;
  const double scale = 1e-6 / static_cast<double>(runs);
  std::printf("{\"step_ms\": %.6f, \"traced_step_ms\": %.6f, \"runs\": %lld}\n",
              static_cast<double>(plain_ns) * scale, static_cast<double>(traced_ns) * scale,
              static_cast<long long>(runs));
  return absl::OkStatus();
}

}  // namespace
}  // namespace libreyolo::worker

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: kineto_infer DEVICE fp32|fp16|bf16 BATCH WARMUP RUNS TRACE\n");
    return 2;
  }
  const absl::Status status = libreyolo::worker::Run(
      argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]), argv[6]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
