#include "server/worker/capture/capture_clock.h"

#include <limits>

#include "absl/strings/match.h"
#include "common/base/check.h"
#include "common/base/file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace libreyolo::worker {
namespace {

bool HasInvariantCounter() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

constexpr int kPairTries = 16;

}  // namespace

const char* Name(ClockKind kind) { return kind == ClockKind::kTsc ? "tsc" : "clock_gettime"; }

ClockKind ChooseClock(const std::string& root) {
  if (!HasInvariantCounter()) return ClockKind::kClockGettime;
  const auto source =
      ReadFile(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource", 256);
  const bool trusted = source.ok() && absl::StartsWith(*source, "tsc");
  return trusted ? ClockKind::kTsc : ClockKind::kClockGettime;
}

ClockPair ReadClockPair(ClockKind kind) {
  if (kind == ClockKind::kClockGettime) {
    const uint64_t now = ReadClockGettime();
    return {now, static_cast<int64_t>(now)};
  }
  ClockPair best;
  uint64_t best_width = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < kPairTries; ++i) {
    const uint64_t before = ReadTicks(kind);
    const auto now = static_cast<int64_t>(ReadClockGettime());
    const uint64_t after = ReadTicks(kind);
    if (after - before >= best_width) continue;
    best_width = after - before;
    best = {before + best_width / 2, now};
  }
  return best;
}

ClockLine::ClockLine(ClockKind kind, const ClockPair& begin, const ClockPair& end)
    : base_ticks_(begin.ticks), base_ns_(begin.monotonic_ns), ns_per_tick_(1) {
  if (kind == ClockKind::kClockGettime) return;
  LY_CHECK(end.ticks > begin.ticks) << begin.ticks << " to " << end.ticks;
  ns_per_tick_ = static_cast<double>(end.monotonic_ns - begin.monotonic_ns) /
                 static_cast<double>(end.ticks - begin.ticks);
}

int64_t ClockLine::ToMonotonicNs(uint64_t ticks) const {
  // The difference is signed: a mark may be read just before the first pair.
  const auto offset = static_cast<int64_t>(ticks - base_ticks_);
  return base_ns_ + static_cast<int64_t>(static_cast<double>(offset) * ns_per_tick_);
}

}  // namespace libreyolo::worker
