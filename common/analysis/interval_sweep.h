// Unions of kernel intervals, and the time that each kernel or category has a device to itself.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace libreyolo::analysis {

struct Interval {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t name;      // dense ids below `name_count`
  uint32_t category;  // below `category_count`
  int32_t stream;     // not looked at: the streams of a device overlap as its kernels do
};

struct SweepResult {
  int64_t union_ns = 0;
  // Time in which only intervals of that name (category) run: what the union loses without them.
  std::vector<int64_t> name_exclusive_ns;
  std::vector<int64_t> category_exclusive_ns;
};

// Sorts `intervals` by start.
SweepResult SweepIntervals(std::vector<Interval>& intervals, size_t name_count,
                           size_t category_count);

}  // namespace libreyolo::analysis
