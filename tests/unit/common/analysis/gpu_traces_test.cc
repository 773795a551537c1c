// Traces that other people recorded on real GPUs, against an independent exact computation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/analysis/load_profile.h"
#include "common/analysis/trace_figures.h"
#include "common/analysis/verdict.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::SharedPath;
using ::testing::Each;

constexpr double kNsPerMs = 1e6;

struct GpuTrace {
  const char* name;
  const char* file;
  int64_t steps;
  int64_t kernels_per_step;
  int64_t kernels;
  double sum_ms;
  double union_ms;
  double utilisation;
};

class GpuTraceTest : public ::testing::TestWithParam<GpuTrace> {};

TEST_P(GpuTraceTest, HasTheRightValues) {
  LY_SKIP_WITHOUT_SHARED();
  const GpuTrace& want = GetParam();
  ASSERT_OK_AND_ASSIGN(
      const trace::RecordedTrace trace,
      trace::ReadTrace(SharedPath(std::string("gpu-traces/") + want.file + ".json.gz")));
  FigureOptions options;
  options.window = WindowRange{0, std::nullopt};
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, ComputeFigures(trace, options));
  EXPECT_EQ(figures.steps, want.steps);
  EXPECT_THAT(figures.kernels_by_step, Each(want.kernels_per_step));
  EXPECT_EQ(figures.completeness.kernels, want.kernels);
  EXPECT_NEAR(static_cast<double>(figures.sum_ns) / kNsPerMs, want.sum_ms, 0.0051);
  EXPECT_NEAR(static_cast<double>(figures.busy_ns) / kNsPerMs, want.union_ms, 0.0051);
  const double wall = static_cast<double>(figures.window_end_ns - figures.window_start_ns);
  EXPECT_NEAR(static_cast<double>(figures.busy_ns) / wall, want.utilisation, 0.00051);
  EXPECT_EQ(figures.completeness.by_time, 0);
  EXPECT_EQ(figures.completeness.launches_without_kernel, 0);
  int64_t phase_kernels = 0;
  for (const PhaseFigures& phase : figures.phases) phase_kernels += phase.kernel_count;
  EXPECT_EQ(phase_kernels, want.kernels);
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuTraceTest,
    ::testing::ValuesIn(std::vector<GpuTrace>{
        {"H100Stacks", "h100-training-stacks", 3, 16, 48, 0.39, 0.39, 0.136},
        {"FourStreams", "4-streams-overlap", 2, 577, 1154, 606.52, 547.30, 0.445},
        {"Dlrm", "v100-dlrm-worker0", 1, 245, 245, 6.83, 6.57, 0.4545},
        {"Ddp", "a100-ddp-fwd-bwd-annot-2steps", 2, 900, 1800, 112.04, 106.55, 0.2396},
        {"Resnet2021", "v100-resnet50-2021-array-2steps", 2, 1467, 2934, 198.63, 198.63, 0.4644},
    }),
    [](const auto& info) { return info.param.name; });

absl::StatusOr<Profile> Load(const std::string& file, std::optional<WindowRange> window) {
  LoadOptions options;
  options.window = window;
  return LoadProfile(SharedPath("gpu-traces/" + file + ".json.gz"), options);
}

bool HasFinding(const Profile& profile, const std::string& code) {
  return std::any_of(profile.findings.begin(), profile.findings.end(),
                     [&](const job::Finding& finding) { return finding.code == code; });
}

TEST(GpuTraceTest, AGpuBehindItsHostSetsThePace) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       Load("rtx3060-cudagraph-backlog", WindowRange{0, std::nullopt}));
  EXPECT_EQ(profile.window_real_steps, 5) << "the copies on the GPU's row are no steps";
  EXPECT_NEAR(*profile.step_ms, 22.94, 0.0051);
  EXPECT_LE(*profile.gpu_util, 1.0);
  EXPECT_EQ(profile.bound, kBoundCompute);
  EXPECT_EQ(profile.launches_per_step, 17);
  EXPECT_EQ(profile.completeness->kernels, 1031);
  EXPECT_EQ(profile.completeness->by_time, 1) << "one kernel has no launch event";
  EXPECT_EQ(profile.completeness->graph_kernels, 955);
  EXPECT_NEAR(*profile.exact.gpu_sum_ms * 5, 115.07, 0.0051);
  EXPECT_NEAR(*profile.exact.gpu_busy_ms * 5, 115.02, 0.0051);
  EXPECT_TRUE(HasFinding(profile, "GPU_BEHIND_HOST"));
  EXPECT_TRUE(HasFinding(profile, "MARKERS_ON_DEVICE"));
}

TEST(GpuTraceTest, WithoutMarkersNothingIsPerStep) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile, Load("rtx2080ti-resnet-loader-4iter", std::nullopt));
  EXPECT_EQ(profile.window_real_steps, 0);
  EXPECT_FALSE(profile.step_ms.has_value());
  EXPECT_FALSE(profile.kernels_per_step.has_value());
  EXPECT_FALSE(profile.kernels[0].ms_per_step.has_value());
  EXPECT_NEAR(*profile.gpu_util, 0.555, 0.00051);
  EXPECT_EQ(profile.completeness->kernels, 1584);
  EXPECT_EQ(profile.completeness->by_time, 300) << "kernels without a launch event";
  EXPECT_EQ(profile.devices[0].busy_ns, 663820000);
  EXPECT_TRUE(HasFinding(profile, "NO_STEP_MARKERS"));
  EXPECT_TRUE(HasFinding(profile, "KERNELS_WITHOUT_LAUNCH"));
}

TEST(GpuTraceTest, AGpuThatWasNotRecordedIsNotIdle) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile, Load("a100-launches-without-kernels", std::nullopt));
  EXPECT_EQ(profile.gpu, GpuState::kNotRecorded);
  EXPECT_EQ(profile.bound, kBoundNotRecorded);
  EXPECT_EQ(profile.completeness->launches, 260);
  EXPECT_FALSE(profile.gpu_util.has_value());
  EXPECT_FALSE(profile.gpu_busy_ms_per_step.has_value());
  EXPECT_EQ(profile.validity, Validity::kInvalid);
}

}  // namespace
}  // namespace libreyolo::analysis
