#include "common/analysis/device_activity.h"

#include <algorithm>

namespace libreyolo::analysis {
namespace {

// `intervals` by start.
std::vector<StreamFigures> StreamsOf(const std::vector<Interval>& intervals) {
  std::map<int32_t, size_t> places;
  std::vector<StreamFigures> streams;
  std::vector<int64_t> ends;  // of what each stream has run so far
  size_t place = 0;
  for (const Interval& interval : intervals) {
    if (streams.empty() || streams[place].stream != interval.stream) {
      const auto [it, inserted] = places.emplace(interval.stream, streams.size());
      place = it->second;
      if (inserted) {
        streams.emplace_back().stream = interval.stream;
        ends.push_back(interval.start_ns);
      }
    }
    StreamFigures& stream = streams[place];
    ++stream.kernel_count;
    stream.sum_ns += interval.end_ns - interval.start_ns;
    stream.busy_ns +=
        std::max<int64_t>(0, interval.end_ns - std::max(interval.start_ns, ends[place]));
    ends[place] = std::max(ends[place], interval.end_ns);
  }
  std::sort(streams.begin(), streams.end(),
            [](const StreamFigures& a, const StreamFigures& b) { return a.stream < b.stream; });
  return streams;
}

}  // namespace

void DeviceActivity::Add(const trace::KernelRecord& kernel, uint32_t category) {
  intervals_[kernel.device].push_back({kernel.start_ns, kernel.start_ns + kernel.duration_ns,
                                       kernel.name, category, kernel.stream});
}

DeviceActivity::Result DeviceActivity::Sweep(size_t name_count, size_t category_count) {
  Result result;
  result.name_exclusive_ns.resize(name_count);
  result.category_exclusive_ns.resize(category_count);
  const auto add = [](const std::vector<int64_t>& from, std::vector<int64_t>& to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  for (auto& [device, intervals] : intervals_) {
    const SweepResult swept = SweepIntervals(intervals, name_count, category_count);
    DeviceFigures& figures = result.devices.emplace_back();
    figures.device = device;
    figures.busy_ns = swept.union_ns;
    figures.streams = StreamsOf(intervals);
    figures.stream_count = static_cast<int64_t>(figures.streams.size());
    for (const StreamFigures& stream : figures.streams) {
      figures.sum_ns += stream.sum_ns;
      figures.kernel_count += stream.kernel_count;
    }
    result.busy_ns += swept.union_ns;
    add(swept.name_exclusive_ns, result.name_exclusive_ns);
    add(swept.category_exclusive_ns, result.category_exclusive_ns);
  }
  const int64_t devices = std::max<int64_t>(1, static_cast<int64_t>(result.devices.size()));
  result.busy_ns /= devices;
  for (int64_t& exclusive_ns : result.name_exclusive_ns) exclusive_ns /= devices;
  for (int64_t& exclusive_ns : result.category_exclusive_ns) exclusive_ns /= devices;
  return result;
}

}  // namespace libreyolo::analysis
