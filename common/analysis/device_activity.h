// What ran on each device and on each of its streams. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/analysis/interval_sweep.h"
#include "common/analysis/trace_figures.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

class DeviceActivity {
 public:
  // `category` is a dense id.
  void Add(const trace::KernelRecord& kernel, uint32_t category);

  struct Result {
    std::vector<DeviceFigures> devices;  // those in use, by number
    // Means over the devices in use; by id.
    int64_t busy_ns = 0;
    std::vector<int64_t> name_exclusive_ns;
    std::vector<int64_t> category_exclusive_ns;
  };
  // Ids are below the counts. To be called once.
  Result Sweep(size_t name_count, size_t category_count);

 private:
  std::map<int32_t, std::vector<Interval>> intervals_;  // by device
};

}  // namespace libreyolo::analysis
