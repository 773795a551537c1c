// The machine around a measurement: what it is, how much of it this process may use, and what
// others did with it meanwhile. Everything is read below a root, so that tests bring their own
// /proc and /sys.
//
//   const HostProbe host;
//   job::Environment environment = host.Describe();
//   const CpuSample before = host.SampleCpu();
//   ... measure ...
//   const CpuUsage usage = CompareCpu(before, host.SampleCpu());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/job/measurement.h"

namespace libreyolo::worker {

// Processor time since boot, summed over the CPUs that this process may run on, in clock ticks of
// 10 ms (USER_HZ).
struct CpuSample {
  int64_t busy_ticks = 0;   // not idle, not waiting for a disk, not stolen
  int64_t steal_ticks = 0;  // taken by the hypervisor
  int64_t total_ticks = 0;
  int64_t own_ticks = 0;  // used by this process
  bool valid = false;     // false when /proc could not be read
};

struct CpuUsage {
  double foreign_ratio = 0;  // others' share of all that the CPUs could do, 0..1
  double steal_ratio = 0;
  // Two samples closer than this cannot tell: the kernel counts in whole ticks.
  bool is_meaningful = false;
};

// Pure.
CpuUsage CompareCpu(const CpuSample& before, const CpuSample& after);

class HostProbe {
 public:
  // The real machine and the CPUs that this process may run on.
  HostProbe();
  // Files below `root`, CPUs by number.
  HostProbe(std::string root, std::vector<int> cpus);

  // CPU model, CPU count, quota, load, memory and kernel; what cannot be read stays empty or 0.
  job::Environment Describe() const;
  // CPUs that the control groups of this process allow (version 1 or 2, the least of all levels);
  // 0 when there is no limit.
  double CpuQuota() const;
  // Threads for compute when nobody asked for a number: as many as the process has CPUs, not more
  // than the quota, at least 1.
  int DefaultThreads() const;
  double LoadAverage() const;
  // What this process could still take: the kernel's estimate, within the limits of its control
  // groups. 0 when it cannot be read.
  int64_t AvailableMemoryBytes() const;
  // Resident memory of this process, now and at most since ResetPeakResident().
  int64_t ResidentBytes() const;
  int64_t PeakResidentSinceReset() const;
  absl::Status ResetPeakResident() const;
  CpuSample SampleCpu() const;

 private:
  std::string Read(const std::string& path) const;

  std::string root_;
  std::vector<int> cpus_;
};

// Peak resident memory of this process so far, in bytes.
int64_t PeakResidentBytes();

}  // namespace libreyolo::worker
