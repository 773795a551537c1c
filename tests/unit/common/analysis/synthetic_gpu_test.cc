// The hand-made GPU traces: every figure against the right value that was worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/analysis/kernels.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/verdict.h"
#include "common/analysis/what_if.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::ReadJsonFile;
using ::libreyolo::testing::SharedPath;

constexpr double kTolerance = 0.006;  // the hand-made values have two decimals

absl::StatusOr<Profile> LoadCase(const std::string& name, const std::string& window = "2:8") {
  LoadOptions options;
  if (!window.empty()) options.window = *ParseWindowRange(window);
  return LoadProfile(SharedPath("synthetic-gpu/" + name + "/profile_trace.json"), options);
}

class SyntheticGpuTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SyntheticGpuTest, HasTheRightValues) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const JsonValue all,
                       ReadJsonFile(SharedPath("synthetic-gpu/expected.json")));
  const JsonValue& want = *all.Find(GetParam());
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase(GetParam()));
  const auto number = [&](const char* key) { return want.Find(key)->number(); };
  EXPECT_EQ(profile.window_real_steps, want.Find("steps")->int_value());
  EXPECT_NEAR(profile.window_wall_ms, number("window_ms"), kTolerance);
  EXPECT_NEAR(*profile.step_ms, number("step_ms"), kTolerance);
  EXPECT_NEAR(*profile.gpu_busy_ms_per_step, number("gpu_busy_ms"), kTolerance);
  EXPECT_NEAR(*profile.gpu_util, number("gpu_util"), kTolerance);
  EXPECT_NEAR(*profile.memcpy_ms_per_step, number("memcpy_ms"), kTolerance);
  EXPECT_EQ(*profile.kernels_per_step, want.Find("kernels_per_step")->int_value());
  EXPECT_EQ(*profile.launches_per_step, want.Find("launches_per_step")->int_value());
  EXPECT_NEAR(profile.dataload_ms.value_or(0), number("dataload_ms"), kTolerance);
  EXPECT_NEAR(*profile.host_overhead_ms_per_step, number("host_overhead_ms"), kTolerance);
  EXPECT_NEAR(*profile.tensorcore_pct, number("tensorcore_pct"), 0.051);
  EXPECT_EQ(*profile.cuda_mallocs_per_step, want.Find("device_allocs_per_step")->int_value());
  EXPECT_EQ(profile.memory_pressure, want.Find("memory_pressure")->bool_value());
  EXPECT_EQ(profile.bound, want.Find("bound")->string_value()) << profile.bound_why;

  double phase_sum = 0;
  for (const PhaseRow& row : profile.phases) {
    const JsonValue* gpu = want.Find("phase_gpu_ms")->Find(row.phase);
    const JsonValue* kernels = want.Find("phase_kernels")->Find(row.phase);
    EXPECT_NEAR(*row.gpu_ms_per_step, gpu == nullptr ? 0 : gpu->number(), kTolerance) << row.phase;
    EXPECT_EQ(*row.kernels_per_step, kernels == nullptr ? 0 : kernels->int_value()) << row.phase;
    phase_sum += *row.gpu_ms_per_step;
  }
  EXPECT_NEAR(phase_sum, *profile.exact.gpu_sum_ms, kTolerance) << "nothing is added twice";
  if (const JsonValue* ops = want.Find("op_self_ms")) {
    for (const auto& [name, ms] : ops->object()) {
      const auto row = std::find_if(profile.ops.begin(), profile.ops.end(),
                                    [&, op = name](const OpRow& r) { return r.op == op; });
      ASSERT_NE(row, profile.ops.end()) << name;
      EXPECT_NEAR(*row->self_ms_per_step, ms.number(), kTolerance) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SyntheticGpuTest,
                         ::testing::Values("train-compute-bound", "train-launch-bound",
                                           "train-two-streams", "train-memory-pressure",
                                           "train-pinned-host", "train-dataload-bound",
                                           "infer-postprocess", "gpu-markers-lag4",
                                           "gpu-markers-lag14", "train-cuda-graph"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SyntheticGpuPhasesTest, HostTimesStandInEveryPhase) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile train, LoadCase("train-compute-bound"));
  ASSERT_GE(train.phases.size(), 2u);
  EXPECT_EQ(train.phases[0].phase, "dataload");
  EXPECT_EQ(train.phases[0].wall_ms_per_step, 1.0);
  EXPECT_EQ(train.phases[1].phase, "to_device");
  EXPECT_EQ(train.phases[1].wall_ms_per_step, 1.2);
  ASSERT_OK_AND_ASSIGN(const Profile loader, LoadCase("train-dataload-bound"));
  EXPECT_EQ(loader.phases[0].wall_ms_per_step, 30.0);
  ASSERT_OK_AND_ASSIGN(const Profile infer, LoadCase("infer-postprocess"));
  ASSERT_EQ(infer.phases.size(), 3u);
  EXPECT_EQ(infer.phases[0].wall_ms_per_step, 2.0);
  EXPECT_EQ(infer.phases[1].wall_ms_per_step, 4.0);
  EXPECT_EQ(infer.phases[2].wall_ms_per_step, 4.0);
}

TEST(SyntheticGpuPhasesTest, ALoaderStallShowsInTheTraceAlone) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(
      const std::string text,
      ReadFile(SharedPath("synthetic-gpu/train-dataload-bound/profile_trace.json")));
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadProfileFromBytes(text, ""));
  EXPECT_EQ(profile.bound, kBoundDataloader);
  EXPECT_NEAR(*profile.host_overhead_ms_per_step, 10.0, kTolerance);
  EXPECT_NEAR(*profile.dataload_ms, 30.0, kTolerance);
  EXPECT_FALSE(profile.img_per_s.has_value());
}

TEST(SyntheticGpuKernelsTest, WholeNamesCanBeSearched) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("train-compute-bound"));
  KernelQuery query;
  query.grep = "align8";  // behind the 90th character
  ASSERT_OK_AND_ASSIGN(const KernelsReport report, ReportKernels(profile, query));
  EXPECT_EQ(report.matched, 3);
  EXPECT_EQ(report.rows[1].kernel, "conv fprop");
}

TEST(SyntheticGpuWhatIfTest, RemovesTheLaunchesThatACategoryHas) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("train-launch-bound"));
  WhatIfQuery gemm;
  gemm.remove_category = "gemm";
  ASSERT_OK_AND_ASSIGN(WhatIfReport report, ProjectWhatIf(profile, gemm));
  EXPECT_EQ(report.removed_launches, 2);
  EXPECT_NEAR(*report.step_projected_exact_ms, 2 - 2 * 0.175, 1e-9);
  WhatIfQuery both;
  both.remove_category = "elementwise";
  both.remove_launches = 2;
  ASSERT_OK_AND_ASSIGN(report, ProjectWhatIf(profile, both));
  EXPECT_EQ(report.removed_launches, 10);
}

TEST(SyntheticGpuWhatIfTest, AGraphIsOneLaunch) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("train-cuda-graph"));
  WhatIfQuery query;
  query.remove_launches = 19;
  ASSERT_OK_AND_ASSIGN(const WhatIfReport report, ProjectWhatIf(profile, query));
  EXPECT_EQ(report.removed_launches, 1);
}

TEST(SyntheticGpuWindowTest, TakesAllCompleteStepsAfterTheFirst) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadCase("train-compute-bound", ""));
  EXPECT_EQ(profile.window_real_steps, 8);
  EXPECT_NEAR(profile.window_wall_ms, 800.0, kTolerance);
  LoadOptions options;
  options.window = WindowRange{9, std::nullopt};
  EXPECT_THAT(
      LoadProfile(SharedPath("synthetic-gpu/train-compute-bound/profile_trace.json"), options),
      ::libreyolo::testing::FailsWith(reason::kArgumentOutOfRange));
}

}  // namespace
}  // namespace libreyolo::analysis
