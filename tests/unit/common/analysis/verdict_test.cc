#include "common/analysis/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::ReadJsonFile;
using ::libreyolo::testing::SharedPath;
using ::testing::HasSubstr;
using ::testing::Not;

// What the peer says around each of its thresholds, and why ours is another word where it is.
TEST(VerdictSamplesTest, TrainingAroundEveryThreshold) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const JsonValue file,
                       ReadJsonFile(SharedPath("synthetic-gpu/verdict-samples.json")));
  int same = 0;
  for (const JsonValue& sample : file.Find("training")->array()) {
    const JsonValue& in = *sample.Find("in");
    VerdictInput input;
    input.gpu = GpuState::kRecorded;
    input.step_ms = in.Find("step_ms")->number();
    input.dataload_ms = in.Find("dataload_ms")->number();
    const double busy = in.Find("gpu_busy_ms_per_step")->number();
    input.gpu_util = std::min(1.0, busy / *input.step_ms);
    input.device_allocs_per_step = in.Find("cuda_mallocs_per_step")->number();
    input.kernels_per_step = in.Find("kernels_per_step")->number();
    input.mean_kernel_us = in.Find("mean_kernel_us")->number();
    const Verdict got = DecideVerdict(input);
    std::string want = sample.Find("bound")->string_value();
    if (want == kBoundDataloader && busy == 85)
      want = kBoundCompute;                                        // a busy GPU waits for nothing
    if (want == kBoundMemory && busy > 105) want = kBoundCompute;  // overlap is no memory pressure
    EXPECT_EQ(got.bound, want) << in.ToCompact();
    same += got.bound == sample.Find("bound")->string_value();
    EXPECT_FALSE(got.why.empty());
    EXPECT_FALSE(got.levers.empty());
  }
  EXPECT_EQ(same, 7);
}

TEST(VerdictSamplesTest, InferenceAroundEveryThreshold) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const JsonValue file,
                       ReadJsonFile(SharedPath("synthetic-gpu/verdict-samples.json")));
  for (const JsonValue& sample : file.Find("inference")->array()) {
    const JsonValue& in = *sample.Find("in");
    VerdictInput input;
    input.inference = true;
    input.gpu = in.Find("cuda")->bool_value() ? GpuState::kRecorded : GpuState::kNone;
    input.step_ms = 10;
    input.stages_ms = {{"preprocess", in.Find("preprocess_ms")->number()},
                       {"forward", in.Find("forward_ms")->number()},
                       {"postprocess", in.Find("postprocess_ms")->number()}};
    if (in.Find("gpu_util")->is_number()) input.gpu_util = in.Find("gpu_util")->number();
    EXPECT_EQ(DecideVerdict(input).bound, sample.Find("bound")->string_value()) << in.ToCompact();
  }
}

VerdictInput Inference(double preprocess, double forward, double postprocess) {
  VerdictInput input;
  input.inference = true;
  input.gpu = GpuState::kRecorded;
  input.gpu_util = 0.4;
  input.step_ms = preprocess + forward + postprocess;
  input.stages_ms = {
      {"preprocess", preprocess}, {"forward", forward}, {"postprocess", postprocess}};
  return input;
}

TEST(VerdictTest, NothingDominatesThreeEqualStages) {
  const Verdict verdict = DecideVerdict(Inference(3.49, 3.3, 3.21));
  EXPECT_THAT(verdict.why, HasSubstr("no stage dominates"));
  EXPECT_THAT(verdict.why, Not(HasSubstr("forward is")));
}

TEST(VerdictTest, TheLargestStageIsNamed) {
  EXPECT_EQ(DecideVerdict(Inference(4.5, 1.9, 3.6)).bound, kBoundPreprocess)
      << "postprocess has its 35 %, but is not the largest";
}

TEST(VerdictTest, PercentagesDoNotCrossTheirThreshold) {
  VerdictInput input;
  input.gpu = GpuState::kRecorded;
  input.step_ms = 100;
  input.gpu_util = 0.799;
  EXPECT_THAT(DecideVerdict(input).why, HasSubstr("79.9 %"));
  EXPECT_EQ(DecideVerdict(input).bound, kBoundHost);
  input.gpu_util = 0.8;
  EXPECT_EQ(DecideVerdict(input).bound, kBoundCompute);
}

TEST(VerdictTest, ACpuProfileNamesPhaseAndOperations) {
  VerdictInput input;
  input.gpu = GpuState::kNone;
  input.step_ms = 200;
  input.dataload_ms = 2;
  input.gpu_util = 0;
  input.stages_ms = {{"dataload", 2}, {"forward", 70}, {"backward", 100}};
  input.top_ops = {{"aten::convolution_backward", 40}, {"aten::mm", 10}};
  const Verdict verdict = DecideVerdict(input);
  EXPECT_EQ(verdict.bound, kBoundCompute);
  EXPECT_THAT(verdict.why, HasSubstr("backward is 58 %"));
  EXPECT_THAT(verdict.why, HasSubstr("aten::convolution_backward 40 %"));
  input.dataload_ms = 60;
  EXPECT_EQ(DecideVerdict(input).bound, kBoundDataloader);
}

}  // namespace
}  // namespace libreyolo::analysis
