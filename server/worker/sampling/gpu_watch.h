// What samples of a GPU come to: figures and findings. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/job/measurement.h"
#include "server/gpu/nvml.h"

namespace libreyolo::worker {

// Samples as they came, and who was on the GPU.
struct GpuSeries {
  std::string unavailable;  // why there is none
  std::string uuid;
  std::string name;
  int64_t memory_total_bytes = 0;
  int64_t span_ns = 0;  // of the window
  std::vector<job::GpuSample> samples;
  std::optional<double> energy_j;
  std::set<int64_t> before;                    // pids on the GPU before this process used it
  std::vector<job::ForeignProcess> processes;  // all that were seen in the window, this one too
};

// This process's id as NVML counts. In a container NVML may know it by the host's number: then the
// only process that was not there before is taken for it. 0 when that does not tell either.
int64_t OwnPid(const GpuSeries& series, int64_t pid);

// `images` were processed in the window.
job::GpuWatch Summarize(const GpuSeries& series, int64_t pid, int64_t images);

// Codes, severities and when they appear:
//   GPU_NOT_SAMPLED     info     there is no sample, and why; or fewer than three
//   GPU_THROTTLED       suspect  clocks were held down under load in over 1 % of the samples
//   GPU_CLOCK_CHANGED   suspect  the SM clock moved by over 5 %
//   GPU_SHARED          suspect  another process used the GPU, or may have;
//                       invalid  it used over a quarter of it
//   GPU_NOT_ALONE       info     another process is there and used nothing
//   GPU_OWNER_UNCLEAR   info     which process is this job's could not be told
std::vector<job::Finding> FindInGpuWatch(const job::GpuWatch& watch);

// "python (4711)" of those that use the GPU or may; empty when nobody does.
std::string ForeignUsers(const std::vector<job::ForeignProcess>& foreign);

}  // namespace libreyolo::worker
