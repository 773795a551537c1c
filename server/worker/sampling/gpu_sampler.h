// Watches the GPU while latencies are taken: clocks, what holds them down, power, temperature, and
// who else is on it, twenty times a second by NVML. On a thread of its own, which the measurement
// never waits for: a driver that hangs costs samples and nothing else.
//
//   GpuSampler sampler({.device = "0"});      // before the process uses CUDA
//   sampler.BeginWindow();
//   ... take latencies ...
//   result.gpu_watch = sampler.EndWindow(images);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/job/measurement.h"

namespace libreyolo::worker {

// What NVML calls the device that CUDA knows as `device` ("cuda:1"), with CUDA_VISIBLE_DEVICES as
// given ("" when not set) and CUDA numbering in the order of the PCI bus.
std::string NvmlDeviceOf(const std::string& device, const std::string& visible);

class GpuSampler {
 public:
  struct Options {
    std::string library;  // gpu::NvmlPath()
    std::string device;   // NvmlDeviceOf()
    absl::Duration interval = absl::Milliseconds(50);
    // How long the calls below wait for an answer of the driver that is overdue.
    absl::Duration patience = absl::Seconds(2);
    int64_t pid = 0;  // this process
  };

  // Notes who is on the GPU already.
  explicit GpuSampler(const Options& options);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  // Who else uses the GPU now, or may: "python (4711)"; empty when nobody does or it cannot be
  // told.
  std::string OtherUsers();

  void BeginWindow();
  // `images` were processed since.
  job::GpuWatch EndWindow(int64_t images);

  int64_t sample_count() const;

 private:
  struct State;
  const Options options_;
  // Shared with the thread, which may be stuck in the driver when this object goes.
  std::shared_ptr<State> state_;
};

}  // namespace libreyolo::worker
