#include "server/worker/workload/step_timer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"
#include "server/worker/capture/null_source.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

constexpr ClockKind kClock = ClockKind::kClockGettime;
const ClockLine kLine(kClock, {0, 0}, {1, 1});

TEST(StepTimerTest, PhasesAddUpToAtMostTheirStep) {
  StepTimer timer(kClock, {"a", "b"}, 2);
  for (int i = 0; i < 3; ++i) {  // one more than announced
    timer.BeginStep();
    for (size_t phase : {0, 1}) {
      timer.BeginPhase(phase);
      timer.EndPhase(phase);
    }
    timer.EndStep();
  }
  EXPECT_EQ(timer.step_count(), 3);
  for (const job::TracedStep& step : timer.Steps(kLine)) {
    ASSERT_EQ(step.phases_ns.size(), 2u);
    EXPECT_EQ(step.phases_ns[0].first, "a");
    EXPECT_EQ(step.phases_ns[1].first, "b");
    EXPECT_GE(step.phases_ns[0].second, 0);
    EXPECT_GE(step.duration_ns, step.phases_ns[0].second + step.phases_ns[1].second);
  }
}

TEST(StepTimerTest, MarksAreNumberedFromTheFirstStep) {
  NullSource source;
  CaptureSession session({.clock = kClock}, source);
  ASSERT_OK(session.Start());
  StepTimer timer(kClock, {"only"}, 2);
  for (int i = 0; i < 2; ++i) {
    timer.BeginStep();
    timer.BeginPhase(0);
    timer.EndPhase(0);
    timer.EndStep();
  }
  ASSERT_OK(session.Stop());
  timer.AddMarks(20, session);
  const std::string path =
      ::testing::TempDir() + "/step_timer_" + std::to_string(getpid()) + ".json";
  ASSERT_OK(session.WriteTrace(path, {}, JsonValue()));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(path));
  unlink(path.c_str());
  size_t at = 0;
  for (const char* name : {"ProfilerStep#20", "step/only", "ProfilerStep#21", "step/only"}) {
    at = text.find("\"name\":\"" + std::string(name) + "\"", at + 1);
    EXPECT_NE(at, std::string::npos) << name;
  }
}

}  // namespace
}  // namespace libreyolo::worker
