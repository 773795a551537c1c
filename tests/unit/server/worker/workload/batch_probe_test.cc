#include "server/worker/workload/batch_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Pair;
using ::testing::StartsWith;

// A device on which a step takes 100 bytes and 10 for each image.
struct FakeSteps {
  int64_t fixed = 100;
  int64_t per_image = 10;
  int64_t out_of_memory_above = 1'000'000;
  std::vector<int> tried;

  absl::StatusOr<int64_t> operator()(int batch) {
    tried.push_back(batch);
    const int64_t bytes = fixed + per_image * batch;
    if (bytes > out_of_memory_above) return MakeError(reason::kOutOfMemory, "no memory");
    return bytes;
  }
};

TEST(ChooseBatchTest, TakesTheLargestThatFits) {
  FakeSteps steps;
  ASSERT_OK_AND_ASSIGN(const BatchChoice choice,
                       ChooseBatch({.budget_bytes = 477}, std::ref(steps)));
  EXPECT_EQ(choice.batch, 37);  // 100 + 37 * 10 = 470
  EXPECT_THAT(steps.tried, ElementsAre(1, 2, 4, 8, 37));
  EXPECT_FALSE(choice.is_bounded_by_maximum);
}

TEST(ChooseBatchTest, StopsAtTheMaximum) {
  FakeSteps steps;
  ASSERT_OK_AND_ASSIGN(const BatchChoice choice,
                       ChooseBatch({.budget_bytes = 100'000, .max_batch = 20}, std::ref(steps)));
  EXPECT_EQ(choice.batch, 20);
  EXPECT_TRUE(choice.is_bounded_by_maximum);
}

TEST(ChooseBatchTest, AMaximumOfOneNeedsOneTry) {
  FakeSteps steps;
  ASSERT_OK_AND_ASSIGN(const BatchChoice choice,
                       ChooseBatch({.budget_bytes = 1000, .max_batch = 1}, std::ref(steps)));
  EXPECT_EQ(choice.batch, 1);
  EXPECT_THAT(steps.tried, ElementsAre(1));
}

TEST(ChooseBatchTest, FillsTheGapBelowABatchThatDidNotFit) {
  FakeSteps steps;
  ASSERT_OK_AND_ASSIGN(const BatchChoice choice,
                       ChooseBatch({.budget_bytes = 160}, std::ref(steps)));
  EXPECT_EQ(choice.batch, 6);
  EXPECT_THAT(steps.tried, ElementsAre(1, 2, 4, 8, 6));
}

TEST(ChooseBatchTest, OutOfMemoryEndsTheClimb) {
  FakeSteps steps{.out_of_memory_above = 130};
  ASSERT_OK_AND_ASSIGN(const BatchChoice choice,
                       ChooseBatch({.budget_bytes = 100'000}, std::ref(steps)));
  EXPECT_EQ(choice.batch, 3);  // 130 bytes; 4 ran out of memory
  EXPECT_EQ(choice.tries.size(), 3u);
}

// Memory that jumps above the straight line: the first guess is too large and is lowered.
TEST(ChooseBatchTest, LowersAGuessThatDoesNotHold) {
  std::vector<int> tried;
  const auto peak = [&tried](int batch) -> absl::StatusOr<int64_t> {
    tried.push_back(batch);
    return batch <= 8 ? 100 + batch : 100 + 3 * batch;
  };
  ASSERT_OK_AND_ASSIGN(const BatchChoice choice, ChooseBatch({.budget_bytes = 200}, peak));
  EXPECT_LE(100 + 3 * choice.batch, 200);
  EXPECT_GT(choice.batch, 8);
}

TEST(ChooseBatchTest, OneIsChosenWhenEvenItIsOverTheBudget) {
  FakeSteps steps;
  ASSERT_OK_AND_ASSIGN(const BatchChoice choice,
                       ChooseBatch({.budget_bytes = 50}, std::ref(steps)));
  EXPECT_EQ(choice.batch, 1);
}

TEST(ChooseBatchTest, NoMemoryForOneIsAnError) {
  FakeSteps steps{.out_of_memory_above = 10};
  EXPECT_THAT(ChooseBatch({.budget_bytes = 1000}, std::ref(steps)).status(),
              FailsWith(reason::kOutOfMemory));
}

TEST(ChooseBatchTest, OtherErrorsEndIt) {
  const auto fail = [](int batch) -> absl::StatusOr<int64_t> {
    if (batch < 4) return 100;
    return MakeError(reason::kCancelled, "the job was cancelled");
  };
  EXPECT_THAT(ChooseBatch({.budget_bytes = 1000}, fail).status(), FailsWith(reason::kCancelled));
}

absl::Status Failure() {
  return MakeError(reason::kOutOfMemory, "out of memory: CUDA", {"use a smaller --batch"},
                   {{"device", "cuda:0"}});
}

TEST(WithBatchThatFitsTest, NamesTheLargestThatRan) {
  FakeSteps steps;
  steps.out_of_memory_above = 400;  // a batch of 30
  const absl::Status status = WithBatchThatFits(Failure(), 64, 1000, std::ref(steps));
  ASSERT_TRUE(HasReason(status, reason::kOutOfMemory));
  const ErrorDetail detail = GetErrorDetail(status);
  EXPECT_EQ(detail.message, "out of memory: CUDA");
  const int fitting = std::stoi(detail.metadata.back().second);
  EXPECT_GE(fitting, 7);
  EXPECT_LT(fitting, 30) << "a little less than what ran";
  EXPECT_THAT(steps.tried, Contains(Gt(fitting)));
  EXPECT_THAT(detail.hints.front(), StartsWith(absl::StrCat("--batch ", fitting, " fits")));
  EXPECT_THAT(steps.tried, Each(Le(63))) << "what failed is not tried again";
}

TEST(WithBatchThatFitsTest, OneIsTheLeast) {
  FakeSteps steps;
  steps.out_of_memory_above = 50;
  for (const int batch : {1, 8, -1}) {
    const ErrorDetail detail =
        GetErrorDetail(WithBatchThatFits(Failure(), batch, 1000, std::ref(steps)));
    EXPECT_THAT(detail.metadata, Contains(Pair("fitting_batch", "0")));
    EXPECT_THAT(detail.hints.front(), StartsWith("a batch of 1 does not fit either"));
  }
  EXPECT_THAT(steps.tried, ElementsAre(1)) << "a batch of 1 that failed is not tried again";
}

TEST(WithBatchThatFitsTest, OtherFailuresStand) {
  FakeSteps steps;
  const absl::Status crash = MakeError(reason::kInternal, "LibTorch: no kernel");
  EXPECT_EQ(WithBatchThatFits(crash, 8, 1000, std::ref(steps)), crash);
  EXPECT_THAT(steps.tried, IsEmpty());
  const auto cancelled = [](int) -> absl::StatusOr<int64_t> {
    return MakeError(reason::kCancelled, "the job was cancelled");
  };
  EXPECT_EQ(WithBatchThatFits(Failure(), 8, 1000, cancelled), Failure());
}

}  // namespace
}  // namespace libreyolo::worker
