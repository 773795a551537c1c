// Selection and suppression against the recorded cases of the Python package.
#include "server/worker/yolo9/postprocess.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/status_matchers.h"
#include "tests/unit/server/worker/yolo9/golden.h"

namespace libreyolo::yolo9 {
namespace {

using testing::At;
using testing::Integers;
using testing::Numbers;
using testing::ReadFixture;
using testing::SignedHash;
using testing::UnitHash;

int64_t IntAt(const JsonValue& value, const char* key) { return At(value, {key}).int_value(); }

// The prediction tensor that a case describes by rule.
at::Tensor MakePredictions(const JsonValue& test) {
  const int64_t nc = IntAt(test, "nc");
  const int64_t anchors = IntAt(test, "anchors");
  const int64_t clusters = IntAt(test, "clusters");
  const std::vector<int64_t> hw = Integers(At(test, {"input_hw"}));
  const double height = static_cast<double>(hw[0]);
  const double width = static_cast<double>(hw[1]);
  at::Tensor predictions = at::empty({4 + nc, anchors}, at::kFloat);
  float* data = predictions.mutable_data_ptr<float>();
  const auto put = [&](int64_t row, int64_t a, double value) {
    data[row * anchors + a] = static_cast<float>(value);
  };
  for (int64_t a = 0; a < anchors; ++a) {
    const int64_t g = a % clusters;
    const auto r = [&](int64_t i) { return UnitHash(7000, static_cast<uint64_t>(4 * g + i)); };
    const auto s = [&](int64_t i) { return SignedHash(7001, static_cast<uint64_t>(4 * a + i)); };
    const double cx = (0.08 + 0.84 * r(0)) * width, cy = (0.08 + 0.84 * r(1)) * height;
    const double bw = (0.06 + 0.28 * r(2)) * width, bh = (0.06 + 0.28 * r(3)) * height;
    put(0, a, cx - 0.5 * bw + 0.15 * bw * s(0));
    put(1, a, cy - 0.5 * bh + 0.15 * bh * s(1));
    put(2, a, cx + 0.5 * bw + 0.15 * bw * s(2));
    put(3, a, cy + 0.5 * bh + 0.15 * bh * s(3));
    const double total = static_cast<double>(anchors * nc);
    for (int64_t c = 0; c < nc; ++c) {
      const int64_t mixed = ((a * nc + c) * 7919 + 13) % (anchors * nc) + 1;
      put(4 + c, a, 0.02 * static_cast<double>(mixed) / (total + 1));
    }
    const int64_t rank = (a * 104729 + 5) % anchors;
    const double position = static_cast<double>(rank);
    put(4 + g % nc, a, 0.05 + 0.9 * (position + 0.5) / static_cast<double>(anchors));
    if (rank % 6 == 1) {
      put(4 + (g + 1) % nc, a, 0.04 + 0.8 * (position + 0.25) / static_cast<double>(anchors));
    }
  }
  for (const JsonValue& entry : At(test, {"overrides"}).array()) {
    const auto& fields = entry.array();
    const int64_t a = fields[0].int_value();
    for (int64_t i = 0; i < 4; ++i) {
      const JsonValue& value = fields[1].is_array() ? fields[1].array()[static_cast<size_t>(i)]
                                                    : fields[static_cast<size_t>(i) + 1];
      double number = 0;
      if (value.is_number()) {
        number = value.number();
      } else {
        const std::string& word = value.string_value();
        number = word == "nan"   ? std::nan("")
                 : word == "inf" ? std::numeric_limits<double>::infinity()
                                 : -std::numeric_limits<double>::infinity();
      }
      put(i, a, number);
    }
  }
  return predictions;
}

void ExpectDetections(const std::vector<Detection>& got, const JsonValue& test) {
  ASSERT_EQ(static_cast<int64_t>(got.size()), IntAt(test, "num_detections"));
  const auto& rows = At(test, {"detections"}).array();
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<double> want = Numbers(rows[i]);
    EXPECT_EQ(got[i].class_id, static_cast<int>(want[0])) << i;
    EXPECT_NEAR(got[i].score, want[1], 1e-6) << i;
    EXPECT_NEAR(got[i].x1, want[2], 1e-3) << i;
    EXPECT_NEAR(got[i].y1, want[3], 1e-3) << i;
    EXPECT_NEAR(got[i].x2, want[4], 1e-3) << i;
    EXPECT_NEAR(got[i].y2, want[5], 1e-3) << i;
  }
  double score_sum = 0, box_sum = 0;
  for (const Detection& d : got) {
    score_sum += d.score;
    box_sum += static_cast<double>(d.x1) + d.y1 + d.x2 + d.y2;
  }
  const double n = static_cast<double>(got.size()) + 1;
  EXPECT_NEAR(score_sum, At(test, {"score_sum"}).number(), 1e-6 * n);
  EXPECT_NEAR(box_sum, At(test, {"box_sum"}).number(), 1e-3 * n);
}

TEST(PostprocessTest, MatchesTheRecordedCasesOnBothPaths) {
  LY_NEEDS_FIXTURES();
  const JsonValue fixture = ReadFixture("postprocess.json");
  for (const JsonValue& test : At(fixture, {"cases"}).array()) {
    SCOPED_TRACE(At(test, {"case"}).string_value());
    const at::Tensor predictions = MakePredictions(test);
    const std::vector<int64_t> wh = Integers(At(test, {"original_wh"}));
    const std::vector<int64_t> hw = Integers(At(test, {"input_hw"}));
    const LetterboxGeometry geometry{.original_width = static_cast<int>(wh[0]),
                                     .original_height = static_cast<int>(wh[1]),
                                     .input_width = static_cast<int>(hw[1]),
                                     .input_height = static_cast<int>(hw[0]),
                                     .pad = At(test, {"pad"}).string_value() == "center"
                                                ? LetterboxPad::kCenter
                                                : LetterboxPad::kTopLeft};
    const PostprocessOptions options{.conf = At(test, {"conf"}).number(),
                                     .iou = At(test, {"iou"}).number(),
                                     .max_det = static_cast<int>(IntAt(test, "max_det"))};
    ExpectDetections(Postprocess(predictions, geometry, options), test);
    ExpectDetections(internal::PostprocessByOps(predictions, geometry, options), test);
  }
}

class SmallPostprocessTest : public ::testing::Test {
 protected:
  // One class, `count` anchors, all boxes the same and every score 0.5.
  static at::Tensor Same(int64_t count) {
    at::Tensor predictions = at::full({5, count}, 0.5, at::kFloat);
    predictions[0].fill_(10);
    predictions[1].fill_(10);
    predictions[2].fill_(50);
    predictions[3].fill_(40);
    return predictions;
  }
  const LetterboxGeometry geometry_{64, 64, 64, 64, LetterboxPad::kTopLeft};
};

TEST_F(SmallPostprocessTest, AScoreEqualToTheThresholdIsNotTaken) {
  EXPECT_TRUE(Postprocess(Same(3), geometry_, {.conf = 0.5}).empty());
  EXPECT_EQ(Postprocess(Same(3), geometry_, {.conf = 0.49}).size(), 1u);
}

TEST_F(SmallPostprocessTest, AnOverlapEqualToTheThresholdIsNotSuppressed) {
  at::Tensor predictions = Same(2);
  predictions[0][1].fill_(30);  // the right half of the first box: IoU exactly 0.5
  EXPECT_EQ(Postprocess(predictions, geometry_, {.iou = 0.5}).size(), 2u);
  EXPECT_EQ(Postprocess(predictions, geometry_, {.iou = 0.49}).size(), 1u);
}

TEST_F(SmallPostprocessTest, MoreCandidatesThanTheCapKeepTheBestOnBothPaths) {
  constexpr int64_t kCount = 40000;
  at::Tensor predictions = Same(kCount);
  float* scores = predictions.mutable_data_ptr<float>() + 4 * kCount;
  for (int64_t a = 0; a < kCount; ++a) {
    scores[a] = 0.3f + 0.6f * static_cast<float>((a * 104729) % kCount) / kCount;
  }
  const float best = *std::max_element(scores, scores + kCount);
  for (const auto& got : {Postprocess(predictions, geometry_, {}),
                          internal::PostprocessByOps(predictions, geometry_, {})}) {
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].score, best);
  }
}

TEST_F(SmallPostprocessTest, NothingOfNothing) {
  EXPECT_TRUE(Postprocess(at::zeros({6, 0}), geometry_, {}).empty());
  EXPECT_TRUE(internal::PostprocessByOps(at::zeros({6, 0}), geometry_, {}).empty());
  EXPECT_TRUE(internal::PostprocessByOps(at::zeros({6, 9}), geometry_, {}).empty());
}

TEST_F(SmallPostprocessTest, TakesHalfPrecisionAndNonContiguousInput) {
  const at::Tensor predictions = Same(2);
  EXPECT_EQ(Postprocess(predictions.to(at::kHalf), geometry_, {}).size(), 1u);
  EXPECT_EQ(Postprocess(predictions.t().contiguous().t(), geometry_, {}).size(), 1u);
}

}  // namespace
}  // namespace libreyolo::yolo9
