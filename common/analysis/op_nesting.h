// Self time of operations from how they nest on their threads. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

// Calls `visit(op)` once for each operation of `ops` (one thread's, in any order; sorted in place),
// in order of start, and then, for each stretch of time that a nested operation takes from one
// around it, `cover(around, nanoseconds)`. `visit` returns a token that `cover` gets back as
// `around`.
//
// The self time of an operation is its duration less what covers it. Of two operations that begin
// together the longer is the outer one; an operation that outlasts the one it began in is nested
// all the same. So the self times of a thread add up to the time that any operation covers.
template <typename Visit, typename Cover>
void VisitNestedOps(std::vector<trace::OpRecord>& ops, Visit visit, Cover cover);

// ---- implementation ----

void SortForNesting(std::vector<trace::OpRecord>& ops);

template <typename Visit, typename Cover>
void VisitNestedOps(std::vector<trace::OpRecord>& ops, Visit visit, Cover cover) {
  SortForNesting(ops);
  struct Open {
    int64_t end_ns;
    decltype(visit(ops.front())) token;
  };
  std::vector<Open> open;
  for (const trace::OpRecord& op : ops) {
    const int64_t end = op.start_ns + op.duration_ns;
    while (!open.empty() && open.back().end_ns <= op.start_ns) open.pop_back();
    const auto token = visit(op);
    int64_t from = op.start_ns;
    for (size_t i = open.size(); i > 0 && from < end; --i) {
      const int64_t until = end < open[i - 1].end_ns ? end : open[i - 1].end_ns;
      if (until > from) {
        cover(open[i - 1].token, until - from);
        from = until;
      }
    }
    open.push_back({end, token});
  }
}

}  // namespace libreyolo::analysis
