#include "server/worker/data/train_item.h"

#include <filesystem>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;

std::string FixturePath(const std::string& name) {
  return std::string(LIBREYOLO_SHARED_DIR) + "/fixtures/yolo9/" + name;
}

// Hands out recorded draws and insists that they are asked for in the same order and ranges.
class ReplayedDraws : public AugmentDraws {
 public:
  explicit ReplayedDraws(const JsonValue::Array& rows) : rows_(rows) {}

  double Random() override { return Next("random").number(); }
  double Uniform(double low, double high) override {
    CheckRange(low, high);
    return Next("uniform").number();
  }
  int Integer(int low, int high) override {
    CheckRange(low, high);
    return static_cast<int>(Next("randint").int_value());
  }
  std::array<double, 3> ColorGains() override {
    const auto& values = Next("np.uniform").array();
    return {values[0].number(), values[1].number(), values[2].number()};
  }
  std::array<int, 3> ColorFlags() override {
    const auto& values = Next("np.randint").array();
    const auto flag = [&values](size_t i) { return static_cast<int>(values[i].int_value()); };
    return {flag(0), flag(1), flag(2)};
  }
  bool AllUsed() const { return next_ == rows_.size(); }

 private:
  void CheckRange(double low, double high) {
    ASSERT_LT(next_, rows_.size());
    EXPECT_DOUBLE_EQ(rows_[next_].array()[1].array()[0].number(), low);
    EXPECT_DOUBLE_EQ(rows_[next_].array()[1].array()[1].number(), high);
  }
  const JsonValue& Next(const char* name) {
    static const JsonValue kNothing(0);
    EXPECT_LT(next_, rows_.size()) << name << " after the last draw";
    if (next_ >= rows_.size()) return kNothing;
    const JsonValue::Array& row = rows_[next_++].array();
    EXPECT_EQ(row[0].string_value(), name) << "draw " << next_;
    return row[2];
  }

  const JsonValue::Array& rows_;
  size_t next_ = 0;
};

void CheckTargets(const JsonValue& want, const std::vector<float>& targets) {
  const JsonValue::Array& rows = want.array();
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t k = 0; k < kTargetFields; ++k) {
      EXPECT_NEAR(targets[i * kTargetFields + k], rows[i].array()[k].number(), 1e-6)
          << "row " << i << " field " << k;
    }
  }
  for (size_t i = rows.size(); i < kMaxTargets; ++i) EXPECT_EQ(targets[i * kTargetFields], -1.0F);
}

void CheckImage(const JsonValue& want, const std::vector<float>& chw) {
  const double sum = std::accumulate(chw.begin(), chw.end(), 0.0);
  EXPECT_NEAR(sum / want.Find("sum")->number(), 1.0, 5e-4);
  const auto& first = want.Find("first")->array();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(chw[i], first[i].number(), 2.5 / 255) << i;
}

TEST(TrainItemReplayTest, MakesWhatTheReferenceMade) {
  if (!std::filesystem::exists(FixturePath("augment.json"))) {
    GTEST_SKIP() << "no shared fixtures beside the checkout";
  }
  const JsonValue fixture = ReadJsonOrDie(FixturePath("augment.json"));
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config,
                       ReadDatasetYaml(FixturePath(fixture.Find("dataset")->string_value()), ""));
  ASSERT_OK_AND_ASSIGN(
      const Dataset dataset,
      LoadTrainSplit(config, DatasetOptions{.input_width = 128, .input_height = 128}));
  BrokenImages broken(dataset.items.size());
  std::vector<float> chw(3 * 128 * 128);
  std::vector<float> targets(kMaxTargets * kTargetFields);
  ASSERT_EQ(fixture.Find("cases")->array().size(), 5U);
  for (const JsonValue& item : fixture.Find("cases")->array()) {
    SCOPED_TRACE(item.Find("case")->string_value());
    AugmentOptions options;
    options.mosaic_probability = item.Find("mosaic_prob")->number();
    TrainItemMaker maker(dataset, options, broken);
    ReplayedDraws draws(item.Find("draws")->array());
    ASSERT_OK(maker.Make(static_cast<size_t>(item.Find("index")->int_value()), draws, chw.data(),
                         targets.data()));
    EXPECT_TRUE(draws.AllUsed());
    CheckTargets(*item.Find("labels"), targets);
    CheckImage(*item.Find("image"), chw);
  }
  EXPECT_EQ(broken.count(), 0);
}

}  // namespace
}  // namespace libreyolo::data
