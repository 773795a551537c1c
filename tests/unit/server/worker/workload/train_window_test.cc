#include "server/worker/workload/train_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> HintsOf(const absl::Status& status) {
  return GetErrorDetail(status).hints;
}

TEST(TrainWindowTest, ExactlyEnoughIsEnough) {
  EXPECT_OK(CheckWindow({.warmup = 5, .steps = 20, .image_count = 400}, 16));
  EXPECT_THAT(CheckWindow({.warmup = 5, .steps = 20, .image_count = 399}, 16),
              FailsWith(reason::kWindowNotFilled));
}

TEST(TrainWindowTest, NamesTheNumbersAndEachWayOut) {
  // 8 batches of 16: 3 of them are left after the warm-up; 128 / 25 = 5 images in a batch.
  const absl::Status status = CheckWindow({.warmup = 5, .steps = 20, .image_count = 128}, 16);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("warmup 5 + steps 20"), HasSubstr("400"), HasSubstr("128")));
  EXPECT_THAT(HintsOf(status), ElementsAre(HasSubstr("400 images"), HasSubstr("--steps 3"),
                                           HasSubstr("--batch 5 ")));
}

TEST(TrainWindowTest, EachWayOutThatIsNamedHolds) {
  for (int64_t images = 1; images < 112; ++images) {
    const TrainWindow window{.warmup = 3, .steps = 4, .image_count = images};
    const absl::Status status = CheckWindow(window, 16);
    ASSERT_FALSE(status.ok()) << images;
    ASSERT_EQ(HintsOf(status).size(), 3u) << images;
    const int64_t batch = LargestBatch(window);
    if (batch > 0) {
      EXPECT_OK(CheckWindow(window, static_cast<int>(batch))) << images;
    } else {
      EXPECT_THAT(HintsOf(status)[2], HasSubstr("does not help")) << images;
    }
  }
  EXPECT_OK(CheckWindow({.warmup = 3, .steps = 4, .image_count = 112}, 16));
}

TEST(TrainWindowTest, TwoBatchesAllowTwoStepsWithoutWarmUp) {
  const absl::Status status = CheckWindow({.warmup = 5, .steps = 20, .image_count = 40}, 16);
  EXPECT_THAT(HintsOf(status)[1], HasSubstr("--steps 2 --warmup 0"));
}

TEST(TrainWindowTest, OneBatchAllowsNone) {
  const absl::Status status = CheckWindow({.warmup = 5, .steps = 20, .image_count = 2}, 2);
  EXPECT_THAT(HintsOf(status), ElementsAre(HasSubstr("50 images"), HasSubstr("1 batch"),
                                           HasSubstr("does not help")));
}

}  // namespace
}  // namespace libreyolo::worker
