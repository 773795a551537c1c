#include "server/worker/capture/capture_clock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

TEST(CaptureClockTest, AKernelThatDistrustsTheCounterDecides) {
  const std::string root = ::testing::TempDir() + "/capture_clock_" + std::to_string(getpid());
  const std::string folder = root + "/sys/devices/system/clocksource/clocksource0";
  ASSERT_OK(MakeDirectories(folder));
  ASSERT_OK(WriteFile(folder + "/current_clocksource", "hpet\n"));
  EXPECT_EQ(ChooseClock(root), ClockKind::kClockGettime);
  EXPECT_EQ(ChooseClock(root + "/nothing_here"), ClockKind::kClockGettime);
}

TEST(CaptureClockTest, Names) {
  EXPECT_STREQ(Name(ClockKind::kTsc), "tsc");
  EXPECT_STREQ(Name(ClockKind::kClockGettime), "clock_gettime");
}

TEST(ClockLineTest, ClockGettimeTicksAreNanoseconds) {
  const ClockLine line(ClockKind::kClockGettime, {1000, 1000}, {2000, 2000});
  EXPECT_EQ(line.ToMonotonicNs(1500), 1500);
}

TEST(ClockLineTest, MapsByTheLineThroughBothPairs) {
  // A counter of 2.5 GHz that showed 10^15 when the clock showed 7 s; a minute is captured.
  const ClockPair begin{1'000'000'000'000'000u, 7'000'000'000};
  const ClockPair end{begin.ticks + 150'000'000'000u, 67'000'000'000};
  const ClockLine line(ClockKind::kTsc, begin, end);
  EXPECT_EQ(line.ToMonotonicNs(begin.ticks), begin.monotonic_ns);
  EXPECT_EQ(line.ToMonotonicNs(end.ticks), end.monotonic_ns);
  EXPECT_EQ(line.ToMonotonicNs(begin.ticks + 2500), begin.monotonic_ns + 1000);
  EXPECT_EQ(line.ToMonotonicNs(begin.ticks - 2500), begin.monotonic_ns - 1000);
}

TEST(CaptureClockTest, AgreesWithTheMonotonicClock) {
  const ClockKind kind = ChooseClock();
  const ClockPair begin = ReadClockPair(kind);
  const int64_t before = MonotonicNs();
  const uint64_t ticks = ReadTicks(kind);
  const int64_t after = MonotonicNs();
  while (MonotonicNs() < begin.monotonic_ns + 5'000'000) {
  }
  const ClockLine line(kind, begin, ReadClockPair(kind));
  constexpr int64_t kSlackNs = 2000;  // the two counters are read one after the other
  EXPECT_GE(line.ToMonotonicNs(ticks), before - kSlackNs);
  EXPECT_LE(line.ToMonotonicNs(ticks), after + kSlackNs);
}

}  // namespace
}  // namespace libreyolo::worker
