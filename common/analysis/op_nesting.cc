#include "common/analysis/op_nesting.h"

#include <algorithm>

namespace libreyolo::analysis {

void SortForNesting(std::vector<trace::OpRecord>& ops) {
  const auto outer_first = [](const trace::OpRecord& a, const trace::OpRecord& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
  };
  if (!std::is_sorted(ops.begin(), ops.end(), outer_first)) {
    std::stable_sort(ops.begin(), ops.end(), outer_first);
  }
}

}  // namespace libreyolo::analysis
