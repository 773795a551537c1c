// Self time of operations from how they nest on their threads. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

// True when `a` comes before `b` on a thread: it starts earlier, or is the longer of two that start
// together and so the outer one.
inline bool NestsBefore(const trace::OpRecord& a, const trace::OpRecord& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
}

// True when the operations of every thread stand in that order.
bool IsInNestingOrder(const std::vector<trace::OpRecord>& ops, size_t thread_count);

// Calls `visit(op)` once for each operation that starts at a time for which `inside` holds, thread
// by thread in order of start, and then, for each stretch of time that a nested operation takes
// from one around it, `cover(around, nanoseconds)`. `visit` returns a token that `cover` gets back
// as `around`.
//
// The self time of an operation is its duration less what covers it. An operation that outlasts the
// one it began in is nested all the same. Up to kRoundingNs of that are the recorder's rounding and
// nobody's time: `cover` takes them from the operation itself. What is left of a longer rest covers
// the next one around. So the self times of a thread add up to the time that any operation covers,
// less such rounding.
template <typename Inside, typename Visit, typename Cover>
void VisitNestedOps(const std::vector<trace::OpRecord>& ops, size_t thread_count, Inside inside,
                    Visit visit, Cover cover);

// Chrome traces hold whole microseconds before Kineto of 2024: start and duration are cut off apart
// from each other, so that an end can stand one microsecond late.
inline constexpr int64_t kRoundingNs = 1000;

// ---- implementation ----

namespace internal {

// The operations of `ops` in nesting order, thread by thread.
std::vector<trace::OpRecord> SortedByNesting(const std::vector<trace::OpRecord>& ops,
                                             size_t thread_count);

}  // namespace internal

template <typename Inside, typename Visit, typename Cover>
void VisitNestedOps(const std::vector<trace::OpRecord>& ops, size_t thread_count, Inside inside,
                    Visit visit, Cover cover) {
  struct Open {
    int64_t end_ns;
    decltype(visit(ops.front())) token;
  };
  // Profilers mostly write each thread in order; only where they do not is a sorted copy made.
  std::vector<trace::OpRecord> sorted;
  const bool in_order = IsInNestingOrder(ops, thread_count);
  if (!in_order) sorted = internal::SortedByNesting(ops, thread_count);
  std::vector<std::vector<Open>> threads(thread_count);
  for (const trace::OpRecord& op : in_order ? ops : sorted) {
    if (!inside(op.start_ns)) continue;
    std::vector<Open>& open = threads[op.thread];
    int64_t end = op.start_ns + op.duration_ns;
    while (!open.empty() && open.back().end_ns <= op.start_ns) open.pop_back();
    const auto token = visit(op);
    if (!open.empty() && end > open.back().end_ns && end - open.back().end_ns <= kRoundingNs) {
      cover(token, end - open.back().end_ns);
      end = open.back().end_ns;
    }
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
