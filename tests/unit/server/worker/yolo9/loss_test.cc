// Loss, assignment and gradients against the recorded ones of the Python package, without a
// network.
#include "server/worker/yolo9/loss.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "server/worker/torch_call.h"
#include "server/worker/yolo9/box_iou.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/worker/yolo9/golden.h"

namespace libreyolo::yolo9 {
namespace {

using testing::At;
using testing::ExpectStatistics;
using testing::Numbers;
using testing::ReadFixture;
using Path = DetectionLoss::AssignmentPath;

TEST(CompleteIouTest, MatchesTheRecordedPairsInBothForms) {
  LY_NEEDS_FIXTURES();
  const JsonValue fixture = ReadFixture("loss_unit.json");
  const JsonValue& pairs = At(fixture, {"iou_pairs"});
  const std::vector<double> want = Numbers(At(pairs, {"ciou"}));
  for (size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> a = Numbers(At(pairs, {"a"}).array()[i]);
    const std::vector<double> b = Numbers(At(pairs, {"b"}).array()[i]);
    const auto box = [](const std::vector<double>& v) {
      return Box{static_cast<float>(v[0]), static_cast<float>(v[1]), static_cast<float>(v[2]),
                 static_cast<float>(v[3])};
    };
    EXPECT_NEAR(CompleteIou(box(a), box(b)), want[i], 1e-6) << i;
    EXPECT_NEAR(CompleteIou(at::tensor(a, at::kDouble), at::tensor(b, at::kDouble)).item<double>(),
                want[i], 1e-6)
        << i;
  }
}

at::Tensor TargetsOf(const JsonValue& images, at::ScalarType dtype) {
  std::vector<at::Tensor> rows;
  for (const JsonValue& image : images.array()) {
    for (const JsonValue& row : image.array())
      rows.push_back(at::tensor(Numbers(row), at::kDouble));
  }
  const auto count = static_cast<int64_t>(images.array().size());
  return at::cat(rows).view({count, -1, 5}).to(dtype);
}

LevelTensors HashMaps(int64_t nc, int64_t height, int64_t width, at::ScalarType dtype) {
  LevelTensors maps;
  for (int level = 0; level < kLevelCount; ++level) {
    at::Tensor map =
        at::empty({2, 64 + nc, height / kStrides[level], width / kStrides[level]}, at::kFloat);
    float* data = map.mutable_data_ptr<float>();
    for (int64_t i = 0; i < map.numel(); ++i) {
      data[i] = static_cast<float>(2 * testing::SignedHash(2000000 + static_cast<uint64_t>(level),
                                                           static_cast<uint64_t>(i)));
    }
    map.narrow(1, 64, nc).sub_(1);
    maps[static_cast<size_t>(level)] = map.to(dtype).requires_grad_(true);
  }
  return maps;
}

void ExpectLoss(const LossTerms& got, const JsonValue& want, double tolerance) {
  const auto near = [&](const at::Tensor& value, const char* key) {
    const double expected = At(want, {key}).number();
    EXPECT_NEAR(value.item<double>(), expected, tolerance * std::max(1.0, std::abs(expected)))
        << key;
  };
  near(got.total, "total_loss");
  near(got.box, "box_loss");
  near(got.dfl, "dfl_loss");
  near(got.cls, "cls_loss");
  EXPECT_EQ(got.foreground_per_image, At(want, {"num_fg"}).number());
}

class LossCaseTest : public ::testing::TestWithParam<Path> {};

TEST_P(LossCaseTest, MatchesTheRecordedCases) {
  LY_NEEDS_FIXTURES();
  const JsonValue fixture = ReadFixture("loss_unit.json");
  for (const JsonValue& test : At(fixture, {"cases"}).array()) {
    const bool is_double = At(test, {"dtype"}).string_value() == "float64";
    SCOPED_TRACE(At(test, {"case"}).string_value() + (is_double ? " float64" : " float32"));
    const at::ScalarType dtype = is_double ? at::kDouble : at::kFloat;
    // CIoU is computed in float32 in both, which bounds the agreement.
    const double tolerance = is_double ? 1e-6 : 1e-4;
    const int64_t nc = At(test, {"nc"}).int_value();
    LevelTensors maps =
        HashMaps(nc, At(test, {"height"}).int_value(), At(test, {"width"}).int_value(), dtype);
    DetectionLoss loss(static_cast<int>(nc), GetParam());
    LossTerms terms;
    ASSERT_OK(worker::CallTorch([&] {
      terms = loss.Compute(maps, TargetsOf(At(test, {"targets"}), dtype));
      terms.total.backward();
    }));
    ExpectLoss(terms, At(test, {"loss"}), tolerance);
    const Assignment& assigned = loss.last_assignment();
    EXPECT_NEAR(assigned.scores.sum().item<double>(), At(test, {"target_score_sum"}).number(),
                tolerance);
    const auto& rows = At(test, {"foreground"}).array();
    ASSERT_EQ(assigned.anchor.size(0), static_cast<int64_t>(rows.size()));
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> want = Numbers(rows[i]);
      const auto at = static_cast<int64_t>(i);
      EXPECT_EQ(assigned.image[at].item<int64_t>(), want[0]);
      EXPECT_EQ(assigned.anchor[at].item<int64_t>(), want[1]);
      EXPECT_EQ(assigned.target[at].item<int64_t>(), want[2]);
      EXPECT_EQ(assigned.class_id[at].item<int64_t>(), want[3]);
      EXPECT_NEAR(assigned.scores[at].item<double>(), want[4], tolerance);
    }
    const auto& gradients = At(test, {"grad_maps"}).array();
    for (size_t level = 0; level < gradients.size(); ++level) {
      ExpectStatistics(maps[level].grad(), gradients[level], 10 * tolerance, tolerance,
                       "gradient " + std::to_string(level));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, LossCaseTest, ::testing::Values(Path::kByDevice, Path::kOps),
                         [](const auto& info) {
                           return info.param == Path::kOps ? "Ops" : "ByDevice";
                         });

// Many overlapping random targets: the two ways to assign must agree in everything.
TEST(AssignmentTest, HostAndOpsAgreeOnCrowdedImages) {
  constexpr int64_t kClasses = 4;
  for (const int64_t target_count : {1, 7, 60}) {
    LevelTensors maps = HashMaps(kClasses, 96, 160, at::kDouble);
    at::Tensor targets = at::empty({2, target_count, 5}, at::kDouble);
    for (int64_t i = 0; i < 2 * target_count; ++i) {
      const auto r = [&](uint64_t k) { return testing::UnitHash(k, static_cast<uint64_t>(i)); };
      at::Tensor row = targets.view({-1, 5})[i];
      const double w = 0.02 + 0.9 * r(3) * r(4), h = 0.02 + 0.9 * r(5) * r(6);
      const double x = (1 - w) * r(7), y = (1 - h) * r(8);
      row[0].fill_(i % 5 == 4 ? -1 : static_cast<double>(i % kClasses));
      row[1].fill_(x);
      row[2].fill_(y);
      row[3].fill_(x + w);
      row[4].fill_(y + h);
    }
    DetectionLoss on_host(kClasses), by_ops(kClasses, Path::kOps);
    const LossTerms a = on_host.Compute(maps, targets);
    const LossTerms b = by_ops.Compute(maps, targets);
    const Assignment& host = on_host.last_assignment();
    const Assignment& ops = by_ops.last_assignment();
    ASSERT_GT(host.anchor.size(0), 0);
    EXPECT_TRUE(host.image.equal(ops.image));
    EXPECT_TRUE(host.anchor.equal(ops.anchor));
    EXPECT_TRUE(host.target.equal(ops.target));
    EXPECT_TRUE(host.class_id.equal(ops.class_id));
    EXPECT_TRUE(host.scores.allclose(ops.scores, 1e-5, 1e-8));
    EXPECT_NEAR(a.total.item<double>(), b.total.item<double>(), 1e-4);
  }
}

TEST(DetectionLossTest, PaddingChangesNothingAndNoRowsAreAllowed) {
  LevelTensors maps = HashMaps(3, 64, 64, at::kFloat);
  const at::Tensor one =
      at::tensor({1.0, 0.2, 0.2, 0.7, 0.8}, at::kFloat).view({1, 1, 5}).expand({2, 1, 5});
  at::Tensor padded = at::full({2, 300, 5}, 0.0, at::kFloat);
  padded.select(2, 0).fill_(-1);
  padded.narrow(1, 0, 1).copy_(one);
  for (const Path path : {Path::kByDevice, Path::kOps}) {
    DetectionLoss loss(3, path);
    EXPECT_EQ(loss.Compute(maps, one).total.item<float>(),
              loss.Compute(maps, padded).total.item<float>());
    const LossTerms none = loss.Compute(maps, padded.narrow(1, 0, 0));
    EXPECT_EQ(none.box.item<float>(), 0);
    EXPECT_EQ(none.dfl.item<float>(), 0);
    EXPECT_EQ(none.foreground_per_image, 0);
    none.total.backward();
    EXPECT_EQ(maps[0].grad().narrow(1, 0, 64).abs().sum().item<float>(), 0);
  }
}

}  // namespace
}  // namespace libreyolo::yolo9
