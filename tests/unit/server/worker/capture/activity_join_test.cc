#include "server/worker/capture/activity_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace libreyolo::worker {
namespace {

constexpr int64_t kBegin = 1'000;
constexpr int64_t kEnd = 9'000;

ActivityRecord Call(const char* name, uint32_t id, int64_t start, int64_t end, int64_t thread = 1) {
  ActivityRecord record;
  record.kind = ActivityKind::kRuntimeCall;
  record.name = name;
  record.correlation_id = id;
  record.start_ns = start;
  record.end_ns = end;
  record.os_thread_id = thread;
  return record;
}
ActivityRecord Driver(const char* name, uint32_t id, int64_t start, int64_t end,
                      int64_t thread = 1) {
  ActivityRecord record = Call(name, id, start, end, thread);
  record.kind = ActivityKind::kDriverCall;
  return record;
}
ActivityRecord Work(uint32_t id, int64_t start, int64_t end,
                    ActivityKind kind = ActivityKind::kKernel) {
  ActivityRecord record;
  record.kind = kind;
  record.name = "work";
  record.correlation_id = id;
  record.start_ns = start;
  record.end_ns = end;
  return record;
}
ActivityJoin Join(const std::vector<ActivityRecord>& records) {
  return JoinActivities(records, kBegin, kEnd);
}

TEST(ActivityJoinTest, AKernelBelongsToItsLaunchInAnyOrder) {
  const ActivityJoin join =
      Join({Work(7, 5'000, 6'000), Call("cudaLaunchKernel", 7, 2'000, 2'100)});
  EXPECT_EQ(join.entries[0].call, 1);
  EXPECT_EQ(join.entries[0].correlation, 7);
  EXPECT_EQ(join.kernel_count, 1);
  EXPECT_EQ(join.launch_count, 1);
  EXPECT_EQ(join.launches_without_kernel, 0);
}

TEST(ActivityJoinTest, EveryLaunchHasItsKernelOrIsCounted) {
  const ActivityJoin join =
      Join({Call("cudaLaunchKernel", 1, 2'000, 2'100), Call("cudaLaunchKernelExC", 2, 3'000, 3'100),
            Call("cudaGraphLaunch", 3, 4'000, 4'100), Call("cudaMemcpyAsync", 4, 5'000, 5'100),
            Call("cudaLaunchHostFunc", 5, 6'000, 6'100), Work(2, 3'200, 3'300)});
  EXPECT_EQ(join.launch_count, 3);
  EXPECT_EQ(join.launches_without_kernel, 2);
}

TEST(ActivityJoinTest, ACopyIsNoKernelOfALaunch) {
  const ActivityJoin join = Join(
      {Call("cudaLaunchKernel", 1, 2'000, 2'100), Work(1, 2'200, 2'300, ActivityKind::kMemcpy)});
  EXPECT_EQ(join.kernel_count, 0);
  EXPECT_EQ(join.launches_without_kernel, 1);
}

TEST(ActivityJoinTest, TheNodesOfAGraphShareItsLaunch) {
  const ActivityJoin join = Join({Call("cudaGraphLaunch", 3, 2'000, 2'100), Work(3, 2'200, 2'300),
                                  Work(3, 2'300, 2'400), Work(3, 2'400, 2'500)});
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(join.entries[i].call, 0);
  EXPECT_EQ(join.kernel_count, 3);
  EXPECT_EQ(join.launches_without_kernel, 0);
}

TEST(ActivityJoinTest, WorkCountsByWhenItWasLaunched) {
  const ActivityJoin join = Join({
      Call("cudaLaunchKernel", 1, 900, 950), Work(1, 1'500, 2'000),      // launched before
      Call("cudaLaunchKernel", 2, 8'900, 8'950), Work(2, 9'500, 9'900),  // runs on afterwards
      Call("cudaLaunchKernel", 3, 9'100, 9'200), Work(3, 9'300, 9'400),  // after the window
  });
  EXPECT_FALSE(join.entries[0].kept);
  EXPECT_FALSE(join.entries[1].kept);
  EXPECT_TRUE(join.entries[2].kept);
  EXPECT_TRUE(join.entries[3].kept);
  EXPECT_FALSE(join.entries[5].kept);
  EXPECT_EQ(join.kernel_count, 1);
  EXPECT_EQ(join.launch_count, 1);
  EXPECT_EQ(join.out_of_window_count, 4);
}

TEST(ActivityJoinTest, WorkWithoutACallCountsByItsOwnTime) {
  const ActivityJoin join = Join({Work(0, 500, 900), Work(0, 900, 1'100), Work(5, 3'000, 3'100)});
  EXPECT_FALSE(join.entries[0].kept);
  EXPECT_TRUE(join.entries[1].kept);
  EXPECT_TRUE(join.entries[2].kept);
  EXPECT_EQ(join.work_without_call, 2);
  EXPECT_EQ(join.entries[2].call, kNoCall);
}

TEST(ActivityJoinTest, WorkWithoutATimeIsCounted) {
  const ActivityJoin join =
      Join({Call("cudaLaunchKernel", 1, 2'000, 2'100), Work(1, 0, 0), Work(9, 0, 0)});
  EXPECT_EQ(join.work_without_time, 2);
  EXPECT_EQ(join.kernel_count, 2);
  EXPECT_EQ(join.launches_without_kernel, 0);
}

TEST(ActivityJoinTest, IdsThatBeganAgainAreToldApart) {
  const ActivityJoin join =
      Join({Call("cudaLaunchKernel", 1, 2'000, 2'100), Work(1, 2'200, 2'300),
            Call("cudaLaunchKernel", 1, 5'000, 5'100), Work(1, 5'200, 5'300)});
  EXPECT_EQ(join.entries[1].call, 0);
  EXPECT_EQ(join.entries[3].call, 2);
  EXPECT_NE(join.entries[1].correlation, join.entries[3].correlation);
  EXPECT_EQ(join.launches_without_kernel, 0);
}

TEST(ActivityJoinTest, AClockThatIsALittleOffSeparatesNobody) {
  // The GPU's time, converted, may lie before its own launch.
  const ActivityJoin join =
      Join({Call("cudaLaunchKernel", 1, 2'000, 2'100), Work(1, 1'990, 2'050)});
  EXPECT_EQ(join.entries[1].call, 0);
  EXPECT_TRUE(join.entries[1].kept);
}

TEST(ActivityJoinTest, DriverCallsInsideARuntimeCallAreThatCall) {
  const ActivityJoin join = Join(
      {Driver("cuLaunchKernel", 2, 2'010, 2'090), Call("cudaLaunchKernel", 1, 2'000, 2'100),
       Work(2, 3'000, 3'100), Driver("cuLaunchKernel", 3, 4'000, 4'100), Work(3, 4'200, 4'300)});
  EXPECT_FALSE(join.entries[0].kept);
  EXPECT_EQ(join.entries[2].call, 1);
  EXPECT_EQ(join.entries[4].call, 3);
  EXPECT_EQ(join.nested_call_count, 1);
  EXPECT_EQ(join.launch_count, 2);
  EXPECT_EQ(join.launches_without_kernel, 0);
}

TEST(ActivityJoinTest, ADriverCallWithItsRuntimeCallsIdIsNoWrap) {
  const ActivityJoin join =
      Join({Call("cudaLaunchKernel", 1, 2'000, 2'100), Driver("cuLaunchKernel", 1, 2'010, 2'090),
            Work(1, 3'000, 3'100)});
  EXPECT_EQ(join.entries[2].call, 0);
  EXPECT_EQ(join.entries[2].correlation, 1);
}

TEST(ActivityJoinTest, AnotherThreadsRuntimeCallIsNotAroundIt) {
  const ActivityJoin join =
      Join({Call("cudaDeviceSynchronize", 1, 2'000, 5'000, 1),
            Driver("cuLaunchKernel", 2, 2'010, 2'090, 2), Work(2, 3'000, 3'100)});
  EXPECT_TRUE(join.entries[1].kept);
  EXPECT_EQ(join.launch_count, 1);
}

TEST(ActivityJoinTest, WaitsAndOverheadAreCutAtTheWindow) {
  const ActivityJoin join = Join({Work(0, 500, 900, ActivityKind::kOverhead),
                                  Work(0, 2'000, 2'100, ActivityKind::kSynchronization)});
  EXPECT_FALSE(join.entries[0].kept);
  EXPECT_TRUE(join.entries[1].kept);
  EXPECT_EQ(join.kernel_count, 0);
}

TEST(ActivityJoinTest, NothingGivesNothing) {
  const ActivityJoin join = Join({});
  EXPECT_EQ(join.kernel_count, 0);
  EXPECT_EQ(join.launch_count, 0);
}

}  // namespace
}  // namespace libreyolo::worker
