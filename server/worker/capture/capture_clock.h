// The clock that stamps op records and marks: the processor's time stamp counter where it may be
// trusted (about 9 ns a reading), else clock_gettime(CLOCK_MONOTONIC) (about 21 ns). Which one is
// stated in the profile. Readings are raw ticks; a ClockLine turns them into CLOCK_MONOTONIC
// nanoseconds afterwards.
//
//   const ClockPair begin = ReadClockPair(kind);
//   const uint64_t ticks = ReadTicks(kind);  // many of these
//   const ClockLine line(kind, begin, ReadClockPair(kind));
//   const int64_t ns = line.ToMonotonicNs(ticks);
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace libreyolo::worker {

enum class ClockKind { kTsc, kClockGettime };

// "tsc" or "clock_gettime".
const char* Name(ClockKind kind);

// kTsc when the counter runs at one rate on all cores and in all power states (CPUID says
// invariant) and the kernel itself keeps time with it; it measures that the cores agree. `root`
// stands before /sys, for tests; "" is the real one.
ClockKind ChooseClock(const std::string& root = "");

inline uint64_t ReadClockGettime() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Any thread. kTsc only where ChooseClock() gave it.
inline uint64_t ReadTicks(ClockKind kind) {
#if defined(__x86_64__)
  if (kind == ClockKind::kTsc) return __rdtsc();
#endif
  (void)kind;
  return ReadClockGettime();
}

// The same moment in ticks and in CLOCK_MONOTONIC nanoseconds.
struct ClockPair {
  uint64_t ticks = 0;
  int64_t monotonic_ns = 0;
};

// A pair whose two readings lie as close together as a few tries give: tens of nanoseconds.
ClockPair ReadClockPair(ClockKind kind);

// Maps ticks to nanoseconds by the straight line through two pairs, which a capture takes at its
// start and its end, so that an error in the rate cannot add up. For kClockGettime ticks are
// nanoseconds already.
class ClockLine {
 public:
  // `end` is later than `begin`.
  ClockLine(ClockKind kind, const ClockPair& begin, const ClockPair& end);
  int64_t ToMonotonicNs(uint64_t ticks) const;

 private:
  uint64_t base_ticks_;
  int64_t base_ns_;
  double ns_per_tick_;
};

}  // namespace libreyolo::worker
