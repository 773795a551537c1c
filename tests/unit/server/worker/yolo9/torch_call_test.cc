// The one catch of the worker.
#include "server/worker/torch_call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "absl/strings/match.h"
#include "common/base/error.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;

TEST(CallTorchTest, PassesThroughWhatDoesNotThrow) {
  int calls = 0;
  EXPECT_OK(CallTorch([&] { ++calls; }));
  EXPECT_EQ(calls, 1);
}

TEST(CallTorchTest, AnErrorOfLibTorchIsOneLineWithoutABacktrace) {
  const absl::Status status = CallTorch([] { at::matmul(at::ones({2, 3}), at::ones({2, 3})); });
  EXPECT_THAT(status, FailsWith(reason::kInternal));
  EXPECT_TRUE(absl::StrContains(status.message(), "mat1 and mat2")) << status;
  EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
}

TEST(CallTorchTest, TooLargeAnAllocationIsOutOfMemory) {
  const auto status = CallTorch([] { at::empty({int64_t{1} << 46}, at::kByte); });
  EXPECT_THAT(status, FailsWith(reason::kOutOfMemory));
  EXPECT_FALSE(GetErrorDetail(status).hints.empty());
  EXPECT_THAT(CallTorch([] { throw std::bad_alloc(); }), FailsWith(reason::kOutOfMemory));
}

TEST(CallTorchTest, AnyOtherExceptionIsInternal) {
  EXPECT_THAT(CallTorch([] { throw std::runtime_error("odd"); }), FailsWith(reason::kInternal));
}

}  // namespace
}  // namespace libreyolo::worker
