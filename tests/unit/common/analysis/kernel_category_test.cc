#include "common/analysis/kernel_category.h"

#include <gtest/gtest.h>

#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::ReadJsonFile;
using ::libreyolo::testing::SharedPath;

TEST(KernelCategoryTest, IsRightForEveryNameOfTheFixture) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const JsonValue names,
                       ReadJsonFile(SharedPath("synthetic-gpu/kernel-names.json")));
  ASSERT_EQ(names.array().size(), 50u);
  for (const JsonValue& item : names.array()) {
    const std::string& name = item.Find("name")->string_value();
    const KernelClass got = ClassifyKernel(name);
    const JsonValue& want = *item.Find("right");
    EXPECT_EQ(got.category, want.Find("category")->string_value()) << name;
    EXPECT_EQ(got.tensorcore, want.Find("tensorcore")->bool_value()) << name;
    EXPECT_FALSE(got.label.empty()) << name;
  }
}

struct NameCase {
  const char* test;
  const char* name;
  const char* category;
  bool tensorcore;
  const char* label;
};

class KernelNameTest : public ::testing::TestWithParam<NameCase> {};

TEST_P(KernelNameTest, IsClassified) {
  const KernelClass got = ClassifyKernel(GetParam().name);
  EXPECT_EQ(got.category, GetParam().category);
  EXPECT_EQ(got.tensorcore, GetParam().tensorcore);
  EXPECT_EQ(got.label, GetParam().label);
}

// Names of today's libraries beyond the fixture's.
INSTANTIATE_TEST_SUITE_P(
    Names, KernelNameTest,
    ::testing::ValuesIn(std::vector<NameCase>{
        {"Blackwell", "nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_NNT", "gemm / conv", true,
         "gemm"},
        {"BlackwellXmma", "sm100_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
         "gemm / conv", true, "gemm"},
        {"Fp8", "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x128_cublas", "gemm / conv",
         true, "gemm"},
        {"Fp32Xmma",
         "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_ffma_cudnn",
         "gemm / conv", false, "conv fprop"},
        {"Flash3",
         "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<int> > >(int)",
         "attention", true, "attention"},
        {"FlashBackward", "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<int>",
         "attention", true, "attention (bwd)"},
        {"CudnnAttention", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
         "attention", true, "attention"},
        {"SplitK", "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>", "gemm / conv",
         false, "splitKreduce_kernel"},
        {"TritonMatmul", "triton_tem_fused_mm_0", "gemm / conv", false, "triton_tem_fused_mm_0"},
        {"TritonReduction", "triton_red_fused_convolution_5", "reduction / norm", false,
         "triton_red_fused_convolution_5"},
        {"AnonymousNamespace",
         "void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, int>(float const*)",
         "other", false, "max_pool_forward_nhwc"},
        {"Empty", "", "other", false, ""},
    }),
    [](const auto& info) { return info.param.test; });

}  // namespace
}  // namespace libreyolo::analysis
