// Whole training steps against the recorded ones: losses, gradients, updates, averages, schedule;
// the gradient scaler.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "server/worker/torch_call.h"
#include "server/worker/yolo9/amp.h"
#include "server/worker/yolo9/loss.h"
#include "server/worker/yolo9/model_loader.h"
#include "server/worker/yolo9/network.h"
#include "server/worker/yolo9/optimizer.h"
#include "server/worker/yolo9/schedule.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/worker/yolo9/golden.h"

namespace libreyolo::yolo9 {
namespace {

using testing::At;
using testing::ExpectStatistics;
using testing::FilledImages;
using testing::Numbers;
using testing::ReadFixture;

at::Tensor Targets(const JsonValue& images, at::ScalarType dtype) {
  std::vector<at::Tensor> rows;
  for (const JsonValue& image : images.array()) {
    for (const JsonValue& row : image.array())
      rows.push_back(at::tensor(Numbers(row), at::kDouble));
  }
  return at::cat(rows).view({static_cast<int64_t>(images.array().size()), -1, 5}).to(dtype);
}

void ExpectNear(double got, double want, double tolerance, const std::string& what) {
  EXPECT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want))) << what;
}

void ExpectLoss(const LossTerms& got, const JsonValue& want, double tolerance) {
  ExpectNear(got.total.item<double>(), At(want, {"total_loss"}).number(), tolerance, "total");
  ExpectNear(got.box.item<double>(), At(want, {"box_loss"}).number(), tolerance, "box");
  ExpectNear(got.dfl.item<double>(), At(want, {"dfl_loss"}).number(), tolerance, "dfl");
  ExpectNear(got.cls.item<double>(), At(want, {"cls_loss"}).number(), tolerance, "cls");
  EXPECT_EQ(got.foreground_per_image, At(want, {"num_fg"}).number());
}

void ExpectAssigned(const Assignment& got, const JsonValue& want) {
  int64_t at = 0;
  int64_t image = 0;
  for (const JsonValue& pairs : At(want, {"anchor_to_gt"}).array()) {
    for (const JsonValue& pair : pairs.array()) {
      const std::vector<int64_t> anchor_target = testing::Integers(pair);
      ASSERT_LT(at, got.anchor.size(0));
      EXPECT_EQ(got.image[at].item<int64_t>(), image);
      EXPECT_EQ(got.anchor[at].item<int64_t>(), anchor_target[0]);
      EXPECT_EQ(got.target[at].item<int64_t>(), anchor_target[1]);
      ++at;
    }
    ++image;
  }
  EXPECT_EQ(at, got.anchor.size(0));
  EXPECT_NEAR(got.scores.sum().item<double>(), At(want, {"target_score_sum"}).number(), 1e-3);
  EXPECT_NEAR(got.scores.max().item<double>(), At(want, {"target_score_max"}).number(), 1e-4);
}

class TrainingTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!testing::HasFixtures()) GTEST_SKIP() << "the handed fixtures are absent";
    fixture_ = ReadFixture(std::string("forward_") + GetParam() + ".json");
  }
  void Prepare(at::ScalarType dtype) {
    ASSERT_OK_AND_ASSIGN(network_, Network::Make({.size = GetParam(), .with_aux = true}));
    testing::FillNetwork(*network_);
    network_->To(dtype);
    network_->SetTraining(true);
    images_ = FilledImages(1000001, 2, 128, 128).to(dtype);
    targets_ = Targets(At(fixture_, {"targets"}), dtype);
  }
  LossTerms Forward() {
    const TrainOutput out = network_->ForwardTrain(images_);
    main_terms_ = main_loss_.Compute(out.raw_maps, targets_);
    aux_terms_ = aux_loss_.Compute(network_->ForwardAux(out), targets_);
    return Combine(main_terms_, aux_terms_);
  }
  void ExpectGradients(const JsonValue& step, double tolerance);
  void ExpectState(const JsonValue& step, const ModelEma& ema, double tolerance);

  JsonValue fixture_;
  std::unique_ptr<Network> network_;
  at::Tensor images_;
  at::Tensor targets_;
  DetectionLoss main_loss_{80};
  DetectionLoss aux_loss_{80};
  LossTerms main_terms_;
  LossTerms aux_terms_;
};

void TrainingTest::ExpectGradients(const JsonValue& step, double tolerance) {
  double square_sum = 0;
  for (const NamedTensor& entry : network_->tensors()) {
    if (!entry.is_parameter) continue;
    ASSERT_TRUE(entry.tensor.grad().defined()) << entry.name;
    const at::Tensor gradient = entry.tensor.grad().to(at::kDouble).flatten();
    square_sum += gradient.square().sum().item<double>();
    const JsonValue* want = At(step, {"grad"}).Find(entry.name);
    if (want == nullptr) continue;
    const double abs_sum = At(*want, {"abssum"}).number();
    const double mean = abs_sum / static_cast<double>(gradient.numel());
    EXPECT_NEAR(gradient.square().sum().sqrt().item<double>(), At(*want, {"l2"}).number(),
                tolerance * At(*want, {"l2"}).number())
        << entry.name;
    EXPECT_NEAR(gradient.sum().item<double>(), At(*want, {"sum"}).number(), tolerance * abs_sum)
        << entry.name;
    EXPECT_NEAR(gradient.abs().sum().item<double>(), abs_sum, tolerance * abs_sum) << entry.name;
    const std::vector<double> first = Numbers(At(*want, {"first"}));
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_NEAR(gradient[static_cast<int64_t>(i)].item<double>(), first[i], 10 * tolerance * mean)
          << entry.name << " " << i;
    }
  }
  const double norm = At(step, {"grad_global_l2"}).number();
  EXPECT_NEAR(std::sqrt(square_sum), norm, tolerance * norm);
}

void TrainingTest::ExpectState(const JsonValue& step, const ModelEma& ema, double tolerance) {
  double sum = 0, abs_sum = 0, ema_sum = 0, ema_abs_sum = 0;
  for (size_t k = 0; k < network_->tensors().size(); ++k) {
    const NamedTensor& entry = network_->tensors()[k];
    const at::Tensor& average = ema.tensors()[k];
    if (const auto* want = At(step, {"params"}).Find(entry.name)) {
      ExpectStatistics(entry.tensor, *want, tolerance, tolerance, entry.name);
    }
    if (const auto* want = At(step, {"model_buffers"}).Find(entry.name)) {
      ExpectStatistics(entry.tensor, *want, tolerance, tolerance, entry.name);
    }
    if (const auto* want = At(step, {"ema"}).Find(entry.name)) {
      ExpectStatistics(average, *want, tolerance, tolerance, "EMA of " + entry.name);
    }
    if (!entry.tensor.is_floating_point()) continue;
    sum += entry.tensor.sum().item<double>();
    abs_sum += entry.tensor.abs().sum().item<double>();
    ema_sum += average.sum().item<double>();
    ema_abs_sum += average.abs().sum().item<double>();
  }
  const double scale = At(step, {"params_all", "abssum"}).number();
  EXPECT_NEAR(sum, At(step, {"params_all", "sum"}).number(), tolerance * scale);
  EXPECT_NEAR(abs_sum, scale, tolerance * scale);
  EXPECT_NEAR(ema_sum, At(step, {"ema_all", "sum"}).number(), tolerance * scale);
  EXPECT_NEAR(ema_abs_sum, At(step, {"ema_all", "abssum"}).number(), tolerance * scale);
}

TEST_P(TrainingTest, TwoStepsMatchInFloat64) {
  Prepare(at::kDouble);
  const JsonValue& block = At(fixture_, {"train", "float64"});
  SgdOptimizer optimizer(*network_);
  ModelEma ema(*network_);
  const auto& rates = At(fixture_, {"step_lr_momentum"}).array();
  for (size_t i = 0; i < rates.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    const JsonValue& step = At(block, {"steps"}).array()[i];
    const double tolerance = i == 0 ? 1e-6 : 1e-5;
    const std::vector<double> rate = Numbers(rates[i]);
    ASSERT_OK(worker::CallTorch([&] {
      const LossTerms terms = Forward();
      ExpectLoss(terms, At(step, {"loss"}), tolerance);
      if (i == 0) {
        ExpectLoss(main_terms_, At(block, {"loss_main"}), tolerance);
        ExpectLoss(main_terms_, At(block, {"loss_main_only"}), tolerance);
        ExpectLoss(aux_terms_, At(block, {"loss_aux"}), tolerance);
        ExpectAssigned(main_loss_.last_assignment(), At(block, {"assigned_main"}));
        ExpectAssigned(aux_loss_.last_assignment(), At(block, {"assigned_aux"}));
      }
      optimizer.ZeroGrad();
      terms.total.backward();
      ExpectGradients(step, tolerance);
      optimizer.Step({.learning_rate = rate[0], .momentum = rate[1]});
      ema.Update();
      ExpectState(step, ema, tolerance);
    }));
  }
}

TEST_P(TrainingTest, LossesAndAssignmentMatchInFloat32) {
  Prepare(at::kFloat);
  const JsonValue& block = At(fixture_, {"train", "float32"});
  ASSERT_OK(worker::CallTorch([&] {
    ExpectLoss(Forward(), At(At(block, {"steps"}).array()[0], {"loss"}), 1e-4);
    ExpectAssigned(main_loss_.last_assignment(), At(block, {"assigned_main"}));
    ExpectAssigned(aux_loss_.last_assignment(), At(block, {"assigned_aux"}));
  }));
}

TEST_P(TrainingTest, GroupsHoldTheRecordedParameters) {
  Prepare(at::kFloat);
  const SgdOptimizer optimizer(*network_);
  const auto& want = At(fixture_, {"train", "float32", "param_groups"}).array();
  ASSERT_EQ(optimizer.groups().size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const SgdOptimizer::Group& group = optimizer.groups()[i];
    int64_t elements = 0;
    for (const at::Tensor& parameter : group.parameters) elements += parameter.numel();
    EXPECT_EQ(static_cast<int64_t>(group.parameters.size()), At(want[i], {"tensors"}).int_value());
    EXPECT_EQ(elements, At(want[i], {"elements"}).int_value());
    EXPECT_EQ(group.weight_decay, At(want[i], {"weight_decay"}).number());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TrainingTest, ::testing::Values("t", "s", "m", "c"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ScheduleTest, MatchesTheRecordedTables) {
  LY_NEEDS_FIXTURES();
  const JsonValue fixture = ReadFixture("schedule.json");
  for (const JsonValue& test : At(fixture, {"lr_momentum", "cases"}).array()) {
    const ScheduleOptions options{.steps_per_epoch = At(test, {"iters_per_epoch"}).int_value(),
                                  .epochs = At(test, {"epochs"}).int_value()};
    for (const JsonValue& row : At(test, {"table"}).array()) {
      const std::vector<double> want = Numbers(row);
      const StepSettings got = SettingsOfStep(options, static_cast<int64_t>(want[0]));
      EXPECT_NEAR(got.learning_rate, want[1], 1e-12) << want[0];
      EXPECT_NEAR(got.momentum, want[2], 1e-11) << want[0];
    }
  }
  for (const JsonValue& row : At(fixture, {"ema_decay"}).array()) {
    const std::vector<double> want = Numbers(row);
    EXPECT_NEAR(EmaDecay(static_cast<int64_t>(want[0])), want[1], 1e-12);
  }
}

TEST(GradScalerTest, UnscalesExactlyAndBacksOffWhenAGradientOverflows) {
  GradScaler scaler(true, at::kCPU);
  const at::Tensor x = at::tensor({1.0f, 2.0f}).requires_grad_(true);
  scaler.Scale(x.square().sum()).backward();
  EXPECT_EQ(x.grad()[1].item<float>(), 4 * 65536);
  EXPECT_TRUE(scaler.Unscale({x.grad()}));
  scaler.Update();
  EXPECT_EQ(x.grad()[0].item<float>(), 2);
  EXPECT_EQ(x.grad()[1].item<float>(), 4);
  EXPECT_EQ(scaler.scale(), 65536);

  at::Tensor bad = at::tensor({1.0f, std::numeric_limits<float>::infinity()});
  EXPECT_FALSE(scaler.Unscale({x.grad(), bad}));
  scaler.Update();
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_TRUE(scaler.Unscale({x.grad()}));  // one bad step does not stick
}

TEST(GradScalerTest, GrowsAfterManyGoodSteps) {
  GradScaler scaler(true, at::kCPU);
  at::Tensor gradient = at::ones({1});
  for (int i = 0; i < 2000; ++i) {
    EXPECT_TRUE(scaler.Unscale({gradient}));
    scaler.Update();
  }
  EXPECT_EQ(scaler.scale(), 131072);
}

TEST(GradScalerTest, ADisabledOneChangesNothing) {
  GradScaler scaler(false, at::kCPU);
  at::Tensor bad = at::tensor({std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(scaler.Scale(bad).equal(bad));
  EXPECT_TRUE(scaler.Unscale({bad}));
  scaler.Update();
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(AutocastScopeTest, HoldsForItsLifeAndNests) {
  ASSERT_OK_AND_ASSIGN(const auto network, Network::Make({.size = "t", .class_count = 2}));
  const at::Tensor images = FilledImages(1, 1, 32, 32);
  const auto type = [&] { return network->ForwardTrain(images).raw_maps[0].scalar_type(); };
  {
    const AutocastScope outer(at::kCPU, at::kBFloat16);
    EXPECT_EQ(type(), at::kBFloat16);
    { const AutocastScope inner(at::kCPU, at::kHalf); }
    EXPECT_EQ(type(), at::kBFloat16);
  }
  EXPECT_EQ(type(), at::kFloat);
}

TEST(AutocastScopeTest, ATrainingStepRunsInHalfPrecisionWithLossesInFloat32) {
  ASSERT_OK_AND_ASSIGN(LoadedModel model, LoadTrainingModel("", "t", {.class_count = 3}));
  const at::Tensor images = FilledImages(1, 2, 64, 64);
  const at::Tensor targets =
      at::tensor({1.0, 0.2, 0.2, 0.7, 0.8}, at::kFloat).view({1, 1, 5}).expand({2, 1, 5});
  for (const auto path :
       {DetectionLoss::AssignmentPath::kByDevice, DetectionLoss::AssignmentPath::kOps}) {
    DetectionLoss loss(3, path);
    ASSERT_OK(worker::CallTorch([&] {
      const AutocastScope scope(at::kCPU, at::kBFloat16);
      const LossTerms terms = loss.Compute(model.network->ForwardTrain(images).raw_maps, targets);
      EXPECT_EQ(terms.total.scalar_type(), at::kFloat);
      EXPECT_TRUE(std::isfinite(terms.total.item<float>()));
      EXPECT_GT(terms.foreground_per_image, 0);
      terms.total.backward();
    }));
  }
}

TEST(TrainingModelTest, TakesTheDatasetsClassCountAndTheAuxiliaryBranch) {
  LY_NEEDS_FIXTURES();
  const std::string path = testing::FixturePath("ckpt/yolo9t_nc2_views.pt");
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, LoadTrainingModel(path, "", {.class_count = 3}));
  EXPECT_EQ(model.class_count, 3);
  EXPECT_EQ(model.names.size(), 3u);
  EXPECT_TRUE(model.network->has_aux());
  EXPECT_TRUE(model.network->training());
  for (const NamedTensor& entry : model.network->tensors()) {
    if (entry.name == "head.cv2.1.2.bias") {
      EXPECT_EQ(entry.tensor.min().item<float>(), 1);
    }
    if (entry.name == "head.cv3.1.2.bias") {
      EXPECT_EQ(entry.tensor.sizes().vec(), std::vector<int64_t>{3});
      EXPECT_EQ(entry.tensor.max().item<float>(), -10);
    }
  }
  ASSERT_OK_AND_ASSIGN(const LoadedModel same, LoadTrainingModel(path, "t", {}));
  EXPECT_EQ(same.class_count, 2);
}

}  // namespace
}  // namespace libreyolo::yolo9
