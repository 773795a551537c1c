#include "common/analysis/op_nesting.h"

#include <algorithm>

namespace libreyolo::analysis {

bool IsInNestingOrder(const std::vector<trace::OpRecord>& ops, size_t thread_count) {
  std::vector<const trace::OpRecord*> last(thread_count, nullptr);
  for (const trace::OpRecord& op : ops) {
    const trace::OpRecord*& before = last[op.thread];
    if (before != nullptr && NestsBefore(op, *before)) return false;
    before = &op;
  }
  return true;
}

namespace internal {

std::vector<trace::OpRecord> SortedByNesting(const std::vector<trace::OpRecord>& ops,
                                             size_t thread_count) {
  std::vector<size_t> starts(thread_count + 1);
  for (const trace::OpRecord& op : ops) ++starts[op.thread + 1];
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  std::vector<trace::OpRecord> sorted(ops.size());
  std::vector<size_t> next(starts.begin(), starts.end() - 1);
  for (const trace::OpRecord& op : ops) sorted[next[op.thread]++] = op;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    const auto begin = sorted.begin() + static_cast<std::ptrdiff_t>(starts[i]);
    const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(starts[i + 1]);
    if (!std::is_sorted(begin, end, NestsBefore)) std::stable_sort(begin, end, NestsBefore);
  }
  return sorted;
}

}  // namespace internal
}  // namespace libreyolo::analysis
