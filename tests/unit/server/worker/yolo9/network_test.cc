// The network against the recorded state dicts and forward passes of the Python package.
#include "server/worker/yolo9/network.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "common/base/error.h"
#include "server/worker/torch_call.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/worker/yolo9/golden.h"

namespace libreyolo::yolo9 {
namespace {

using ::libreyolo::testing::FailsWith;
using testing::At;
using testing::ExpectStatistics;
using testing::FilledImages;
using testing::FillNetwork;
using testing::ReadFixture;

TEST(FillRuleTest, MatchesTheGivenCheckValues) {
  const auto u = [](uint64_t k, uint64_t i) { return testing::UnitHash(k, i) * 16777216; };
  EXPECT_EQ(u(0, 0), 16034049);
  EXPECT_EQ(u(0, 1), 6401663);
  EXPECT_EQ(u(1, 0), 12560814);
  EXPECT_EQ(u(5, 17), 10604256);
  EXPECT_EQ(u(1000000, 5), 16241744);
  EXPECT_EQ(u(7000, 3), 7200590);
}

class NetworkSizeTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string size() const { return GetParam(); }
  std::unique_ptr<Network> MakeFilled(bool with_aux) {
    auto network = Network::Make({.size = size(), .with_aux = with_aux});
    EXPECT_OK(network);
    FillNetwork(**network);
    return *std::move(network);
  }
  void ExpectEval(Network& network, const JsonValue& want, int64_t height, int64_t width,
                  at::ScalarType dtype, double tolerance, double score_tolerance);
};

TEST_P(NetworkSizeTest, StateDictHasTheRecordedOrderShapesAndSums) {
  LY_NEEDS_FIXTURES();
  const JsonValue want = ReadFixture("tensors_" + size() + ".json");
  const std::unique_ptr<Network> network = MakeFilled(/*with_aux=*/true);
  const auto& rows = At(want, {"tensors"}).array();
  ASSERT_EQ(network->tensors().size(), rows.size());
  for (size_t k = 0; k < rows.size(); ++k) {
    const auto& row = rows[k].array();
    const NamedTensor& entry = network->tensors()[k];
    ASSERT_EQ(entry.name, row[1].string_value());
    const at::ScalarType dtype = row[2].string_value() == "int64" ? at::kLong : at::kFloat;
    EXPECT_EQ(entry.tensor.scalar_type(), dtype) << entry.name;
    EXPECT_EQ(entry.tensor.sizes().vec(), testing::Integers(row[3])) << entry.name;
    EXPECT_EQ(entry.is_parameter, row[4].int_value() == 1) << entry.name;
    EXPECT_EQ(entry.tensor.requires_grad(), entry.is_parameter) << entry.name;
    const at::Tensor values = entry.tensor.detach().to(at::kDouble);
    const double abs_sum = values.abs().sum().item<double>();
    EXPECT_NEAR(values.sum().item<double>(), row[5].number(), 1e-8 * (abs_sum + 1)) << entry.name;
    EXPECT_NEAR(abs_sum, row[6].number(), 1e-8 * (abs_sum + 1)) << entry.name;
  }
  EXPECT_EQ(network->parameter_count(), At(want, {"main_params"}).int_value());
}

TEST_P(NetworkSizeTest, WithoutTheAuxiliaryBranchTheStateDictIsItsFirstPart) {
  LY_NEEDS_FIXTURES();
  const JsonValue want = ReadFixture("tensors_" + size() + ".json");
  ASSERT_OK_AND_ASSIGN(const auto network, Network::Make({.size = size()}));
  EXPECT_EQ(static_cast<int64_t>(network->tensors().size()),
            At(want, {"main_tensors"}).int_value());
  EXPECT_EQ(network->parameter_count(), At(want, {"main_params"}).int_value());
  EXPECT_FALSE(network->has_aux());
}

void NetworkSizeTest::ExpectEval(Network& network, const JsonValue& want, int64_t height,
                                 int64_t width, at::ScalarType dtype, double tolerance,
                                 double score_tolerance) {
  const c10::InferenceMode guard;
  const at::Tensor images = FilledImages(1000000, 1, height, width).to(dtype);
  EvalOutput out;
  ASSERT_OK(worker::CallTorch([&] { out = network.ForwardEval(images); }));
  for (int level = 0; level < kLevelCount; ++level) {
    const std::string raw = "raw" + std::to_string(level);
    ExpectStatistics(out.raw_maps[level], At(want, {raw.c_str()}), tolerance, tolerance, raw);
    const std::string x = "x" + std::to_string(kStrides[level]);
    ExpectStatistics(out.features[level], At(want, {x.c_str()}), tolerance, tolerance, x);
  }
  ExpectStatistics(out.predictions, At(want, {"predictions"}), tolerance, tolerance, "predictions");
  ExpectStatistics(out.predictions.narrow(1, 0, 4), At(want, {"boxes"}), tolerance, tolerance,
                   "boxes");
  ExpectStatistics(out.predictions.narrow(1, 4, out.predictions.size(1) - 4), At(want, {"scores"}),
                   score_tolerance, score_tolerance, "scores");
}

TEST_P(NetworkSizeTest, EvalForwardMatchesInFloat32) {
  LY_NEEDS_FIXTURES();
  const JsonValue want = ReadFixture("forward_" + size() + ".json");
  const std::unique_ptr<Network> network = MakeFilled(/*with_aux=*/false);
  for (const auto& [name, block] : At(want, {"eval"}).object()) {
    SCOPED_TRACE(name);
    const int64_t height = std::stoll(name);
    const int64_t width = std::stoll(name.substr(name.find('x') + 1));
    ExpectEval(*network, At(block, {"float32"}), height, width, at::kFloat, 1e-4, 1e-3);
  }
}

TEST_P(NetworkSizeTest, EvalForwardMatchesInFloat64) {
  LY_NEEDS_FIXTURES();
  const JsonValue want = ReadFixture("forward_" + size() + ".json");
  const std::unique_ptr<Network> network = MakeFilled(/*with_aux=*/false);
  network->To(at::kDouble);
  ExpectEval(*network, At(want, {"eval", "64x64", "float64"}), 64, 64, at::kDouble, 1e-7, 1e-7);
}

TEST_P(NetworkSizeTest, TrainForwardMatchesInFloat64) {
  LY_NEEDS_FIXTURES();
  const JsonValue want = ReadFixture("forward_" + size() + ".json");
  const std::unique_ptr<Network> network = MakeFilled(/*with_aux=*/true);
  network->To(at::kDouble);
  network->SetTraining(true);
  const at::Tensor images = FilledImages(1000001, 2, 128, 128).to(at::kDouble);
  TrainOutput out;
  LevelTensors aux;
  {
    const c10::InferenceMode guard;
    ASSERT_OK(worker::CallTorch([&] {
      out = network->ForwardTrain(images);
      aux = network->ForwardAux(out);
    }));
  }
  const JsonValue& block = At(want, {"train", "float64"});
  for (int level = 0; level < kLevelCount; ++level) {
    const std::string i = std::to_string(level);
    ExpectStatistics(out.raw_maps[level], At(block, {"raw_maps", ("main" + i).c_str()}), 1e-6, 1e-6,
                     "main" + i);
    ExpectStatistics(aux[level], At(block, {"raw_maps", ("aux" + i).c_str()}), 1e-6, 1e-6,
                     "aux" + i);
  }
  std::map<std::string, at::Tensor> by_name;
  for (const NamedTensor& entry : network->tensors()) by_name[entry.name] = entry.tensor;
  for (const auto& [name, statistics] : At(block, {"buffers_after_one_forward"}).object()) {
    ExpectStatistics(by_name[name], statistics, 1e-6, 1e-6, name);
  }
}

TEST_P(NetworkSizeTest, AnotherClassCountReplacesWhatTheReferenceReplaces) {
  LY_NEEDS_FIXTURES();
  const JsonValue fixture = ReadFixture("rebuild_nc3.json");
  const JsonValue& want = At(fixture, {size().c_str()});
  const std::unique_ptr<Network> network = MakeFilled(/*with_aux=*/false);
  std::map<std::string, at::Tensor> before;
  for (const NamedTensor& entry : network->tensors()) {
    before[entry.name] = entry.tensor.detach().clone();
  }
  network->ReplaceClassCount(3, /*seed=*/5);

  std::set<std::string> changed;
  for (const NamedTensor& entry : network->tensors()) {
    const at::Tensor& old = before[entry.name];
    EXPECT_EQ(entry.tensor.requires_grad(), entry.is_parameter) << entry.name;
    if (!old.sizes().equals(entry.tensor.sizes()) || !old.equal(entry.tensor)) {
      changed.insert(entry.name);
    }
  }
  const auto& rows = At(want, {"changed"}).object();
  EXPECT_EQ(changed.size(), rows.size());
  for (const auto& [name, row] : rows) {
    EXPECT_TRUE(changed.count(name)) << name;
    for (const NamedTensor& entry : network->tensors()) {
      if (entry.name != name) continue;
      EXPECT_EQ(entry.tensor.sizes().vec(), testing::Integers(At(row, {"to"}))) << name;
      if (const JsonValue* value = row.Find("value")) {
        EXPECT_TRUE(entry.tensor.eq(value->number()).all().item<bool>()) << name;
      }
    }
  }
  EXPECT_EQ(network->class_tower_width(), At(want, {"hidden_width_kept"}).int_value());
  EXPECT_EQ(network->class_count(), 3);

  network->AttachAux(/*seed=*/1);
  for (const NamedTensor& entry : network->tensors()) {
    if (entry.name != "aux_head.cv3.0.0.conv.weight") continue;
    EXPECT_EQ(entry.tensor.size(0), At(want, {"aux_hidden_width_built_after_rebuild"}).int_value());
  }
  ASSERT_OK_AND_ASSIGN(const auto fresh, Network::Make({.size = size(), .class_count = 3}));
  EXPECT_EQ(fresh->class_tower_width(),
            At(want, {"hidden_width_of_a_fresh_nc3_model"}).int_value());

  const c10::InferenceMode guard;
  const at::Tensor predictions = network->ForwardEval(FilledImages(1, 1, 64, 64)).predictions;
  EXPECT_EQ(predictions.sizes().vec(), (std::vector<int64_t>{1, 7, 84}));
}

INSTANTIATE_TEST_SUITE_P(Sizes, NetworkSizeTest, ::testing::Values("t", "s", "m", "c"),
                         [](const auto& info) { return std::string(info.param); });

TEST(NetworkTest, TheSameSeedGivesTheSameWeights) {
  ASSERT_OK_AND_ASSIGN(const auto a, Network::Make({.size = "t", .seed = 3}));
  ASSERT_OK_AND_ASSIGN(const auto b, Network::Make({.size = "t", .seed = 3}));
  ASSERT_OK_AND_ASSIGN(const auto c, Network::Make({.size = "t", .seed = 4}));
  EXPECT_TRUE(a->tensors()[0].tensor.equal(b->tensors()[0].tensor));
  EXPECT_FALSE(a->tensors()[0].tensor.equal(c->tensors()[0].tensor));
  const at::Tensor weight = a->tensors()[0].tensor.detach();
  const double bound = 1 / std::sqrt(27.0);
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_GT(weight.abs().max().item<double>(), 0.9 * bound);
}

TEST(NetworkTest, RefusesAnUnknownSizeAndNoClasses) {
  EXPECT_THAT(Network::Make({.size = "x"}), FailsWith(reason::kArgumentInvalid));
  EXPECT_THAT(Network::Make({.size = "t", .class_count = 0}), FailsWith(reason::kArgumentInvalid));
}

TEST(NetworkTest, TheGridFollowsTheInputAndOutlivesInferenceMode) {
  ASSERT_OK_AND_ASSIGN(const auto network, Network::Make({.size = "t", .class_count = 2}));
  const at::Tensor small = FilledImages(1, 1, 32, 64);
  const at::Tensor large = FilledImages(1, 1, 64, 32);
  at::Tensor first;
  {
    const c10::InferenceMode guard;
    first = network->ForwardEval(small).predictions;
    network->ForwardEval(large);
  }
  const at::Tensor again = network->ForwardEval(small).predictions.detach();
  EXPECT_TRUE(again.allclose(first, 1e-5, 1e-5));
  EXPECT_EQ(again.size(2), 4 * 8 + 2 * 4 + 2);
}

TEST(NetworkTest, AnInputOfAnotherMultipleIsAStatusNotACrash) {
  ASSERT_OK_AND_ASSIGN(const auto network, Network::Make({.size = "t", .class_count = 2}));
  const at::Tensor images = FilledImages(1, 1, 40, 40);
  EXPECT_THAT(worker::CallTorch([&] { network->ForwardEval(images); }),
              FailsWith(reason::kInternal));
}

}  // namespace
}  // namespace libreyolo::yolo9
