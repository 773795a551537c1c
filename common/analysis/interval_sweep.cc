#include "common/analysis/interval_sweep.h"

#include <algorithm>

namespace libreyolo::analysis {
namespace {

struct Edge {
  int64_t time_ns;
  bool opens;
  uint32_t name;
  uint32_t category;
};

// How many intervals of each id are open, and which one is when all open ones share an id.
class OpenIds {
 public:
  explicit OpenIds(size_t count) : open_(count) {}

  void Open(uint32_t id) {
    if (open_[id]++ == 0) ids_.push_back(id);
  }
  void Close(uint32_t id) {
    if (--open_[id] == 0) ids_.erase(std::find(ids_.begin(), ids_.end(), id));
  }
  bool single() const { return ids_.size() == 1; }
  uint32_t id() const { return ids_.front(); }

 private:
  std::vector<uint32_t> open_;
  std::vector<uint32_t> ids_;  // a handful: streams that run at once
};

}  // namespace

SweepResult SweepIntervals(std::vector<Interval>& intervals, size_t name_count,
                           size_t category_count) {
  SweepResult result;
  result.name_exclusive_ns.resize(name_count);
  result.category_exclusive_ns.resize(category_count);
  const auto by_start = [](const Interval& a, const Interval& b) {
    return a.start_ns < b.start_ns;
  };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_start)) {
    std::stable_sort(intervals.begin(), intervals.end(), by_start);
  }
  OpenIds names(name_count);
  OpenIds categories(category_count);
  std::vector<Edge> edges;
  for (size_t first = 0; first < intervals.size();) {
    // A group of intervals that overlap in a chain; on one stream each is alone.
    int64_t end = intervals[first].end_ns;
    size_t last = first + 1;
    while (last < intervals.size() && intervals[last].start_ns < end) {
      end = std::max(end, intervals[last].end_ns);
      ++last;
    }
    result.union_ns += end - intervals[first].start_ns;
    if (last == first + 1) {
      const Interval& alone = intervals[first];
      result.name_exclusive_ns[alone.name] += end - alone.start_ns;
      result.category_exclusive_ns[alone.category] += end - alone.start_ns;
      first = last;
      continue;
    }
    edges.clear();
    for (size_t i = first; i < last; ++i) {
      const Interval& interval = intervals[i];
      if (interval.end_ns <= interval.start_ns) continue;
      edges.push_back({interval.start_ns, true, interval.name, interval.category});
      edges.push_back({interval.end_ns, false, interval.name, interval.category});
    }
    std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.opens < b.opens;
    });
    int64_t before = edges.front().time_ns;
    for (const Edge& edge : edges) {
      const int64_t passed = edge.time_ns - before;
      if (names.single()) result.name_exclusive_ns[names.id()] += passed;
      if (categories.single()) result.category_exclusive_ns[categories.id()] += passed;
      before = edge.time_ns;
      if (edge.opens) {
        names.Open(edge.name);
        categories.Open(edge.category);
      } else {
        names.Close(edge.name);
        categories.Close(edge.category);
      }
    }
    first = last;
  }
  return result;
}

}  // namespace libreyolo::analysis
