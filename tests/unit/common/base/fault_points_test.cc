#include "common/base/fault_points.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/support/status_matchers.h"

namespace libreyolo {
namespace {

using ::libreyolo::testing::StatusIs;

TEST(FaultPointsTest, AnEmptyPlanIsNoHookAndNoHookAllowsAll) {
  ASSERT_OK_AND_ASSIGN(const FaultHook hook, ParseFaultPlan(" ; "));
  EXPECT_FALSE(hook);
  EXPECT_OK(AtFaultPoint(hook, "anything"));
}

TEST(FaultPointsTest, ErrorsComeAtTheirPointsAlone) {
  ASSERT_OK_AND_ASSIGN(const FaultHook hook,
                       ParseFaultPlan("exchange *=error; index commit = error@2"));
  EXPECT_FALSE(hook("exchange infer_0").ok());
  EXPECT_FALSE(hook("exchange infer_0").ok());
  EXPECT_OK(hook("after exchange infer_0"));
  EXPECT_OK(hook("index commit"));
  EXPECT_FALSE(hook("index commit").ok());
  EXPECT_OK(hook("index commit"));
}

TEST(FaultPointsTest, ADelayTakesItsTime) {
  ASSERT_OK_AND_ASSIGN(const FaultHook hook, ParseFaultPlan("slow=delay:20"));
  const int64_t begin = MonotonicNs();
  EXPECT_OK(hook("slow"));
  EXPECT_GE(MonotonicNs() - begin, 19'000'000);
}

TEST(FaultPointsTest, ACrashIsAsByKill) {
  ASSERT_OK_AND_ASSIGN(const FaultHook hook, ParseFaultPlan("end=crash@2"));
  const pid_t child = fork();
  if (child == 0) {
    (void)hook("end");
    (void)hook("end");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(FaultPointsTest, WhatIsNoPlanIsRefused) {
  for (const char* plan :
       {"x", "=error", "x=explode", "x=delay", "x=delay:-1", "x=error@0", "x=error@"})
    EXPECT_THAT(ParseFaultPlan(plan), StatusIs(absl::StatusCode::kInvalidArgument)) << plan;
}

}  // namespace
}  // namespace libreyolo
