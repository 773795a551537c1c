// The handed dataset with its odd cases against what the reference makes of it.
#include <filesystem>
#include <set>
#include <string>

#include "server/worker/data/dataset.h"
#include "server/worker/data/dataset_images.h"
#include "server/worker/data/image_decode.h"
#include "server/worker/data/letterbox.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;

std::string FixturePath(const std::string& name) {
  return std::string(LIBREYOLO_SHARED_DIR) + "/fixtures/yolo9/" + name;
}

constexpr DatasetOptions kOptions{.input_width = 192, .input_height = 128};

class DatasetFixtureTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(FixturePath("dataset_expected.json"))) {
      GTEST_SKIP() << "no shared fixtures beside the checkout";
    }
    const JsonValue fixture = ReadJsonOrDie(FixturePath("dataset_expected.json"));
    expected_ = *fixture.Find("yaml")->Find(GetParam());
    absl::StatusOr<DatasetConfig> config =
        ReadDatasetYaml(FixturePath(std::string("dataset/") + GetParam()), "");
    ASSERT_OK(config);
    config_ = *std::move(config);
  }

  static void CheckItem(const DatasetItem& item, const JsonValue& want) {
    EXPECT_EQ(std::filesystem::path(item.image_path).filename().string(),
              want.Find("file")->string_value());
    EXPECT_EQ(item.size.height, want.Find("original_hw")->array()[0].int_value());
    EXPECT_EQ(item.size.width, want.Find("original_hw")->array()[1].int_value());
    const ImageSize scaled = ScaledSize(item.size, kOptions.input_width, kOptions.input_height);
    EXPECT_EQ(scaled.height, want.Find("resized_hw")->array()[0].int_value());
    EXPECT_EQ(scaled.width, want.Find("resized_hw")->array()[1].int_value());
    ASSERT_EQ(item.boxes.size(), want.Find("boxes")->array().size());
    for (size_t i = 0; i < item.boxes.size(); ++i) {
      const auto value = [&](size_t k) {
        return static_cast<float>(want.Find("boxes")->array()[i].array()[k].number());
      };
      // Nine digits tell two floats apart: equal, not near.
      EXPECT_EQ(item.boxes[i],
                (LabelBox{value(0), value(1), value(2), value(3), static_cast<int>(value(4))}));
    }
  }

  static void CheckPixels(const DatasetItem& item, const JsonValue& want) {
    Image image;
    Image resized;
    ASSERT_OK(ImageDecoder().DecodeFile(item.image_path, image));
    const ImageSize scaled = ScaledSize(item.size, kOptions.input_width, kOptions.input_height);
    Letterboxer().Resize(image, scaled.width, scaled.height, resized);
    int64_t sum = 0;
    for (const uint8_t value : resized.rgb) sum += value;
    const int64_t want_sum = want.Find("bgr_sum")->int_value();
    EXPECT_LE(std::abs(sum - want_sum), want_sum / 1000);  // JPEG decoders differ in the last bit
  }

  JsonValue expected_;
  DatasetConfig config_;
};

TEST_P(DatasetFixtureTest, ClassesAreTheReferences) {
  EXPECT_EQ(config_.class_count, static_cast<int>(expected_.Find("nc")->int_value()));
  EXPECT_EQ(config_.class_names.size(), static_cast<size_t>(*config_.class_count));
}

TEST_P(DatasetFixtureTest, ListsTheReferencesFiles) {
  ASSERT_OK_AND_ASSIGN(const ImageFiles files, FindImages(config_.root, config_.train));
  const auto& want = expected_.Find("train_img_files")->array();
  ASSERT_EQ(files.paths.size(), want.size());
  const std::string root = FixturePath("dataset");
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(std::filesystem::relative(files.paths[i], root).string(), want[i].string_value());
    EXPECT_EQ(std::filesystem::relative(LabelPathOf(files.paths[i]), root).string(),
              expected_.Find("train_label_files")->array()[i].string_value());
  }
}

TEST_P(DatasetFixtureTest, ItemsAreTheReferences) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadTrainSplit(config_, kOptions));
  const JsonValue* items = expected_.Find("items");
  if (items == nullptr) {
    // Where the reference gives up at a broken or missing picture we go on and count it.
    ASSERT_NE(expected_.Find("dataset_error"), nullptr);
    EXPECT_GT(dataset.problems.unreadable_image_count, 0);
    EXPECT_FALSE(dataset.problems.examples.empty());
    return;
  }
  ASSERT_EQ(dataset.items.size(), items->array().size());
  for (size_t i = 0; i < dataset.items.size(); ++i) {
    SCOPED_TRACE(dataset.items[i].image_path);
    CheckItem(dataset.items[i], items->array()[i]);
    CheckPixels(dataset.items[i], items->array()[i]);
  }
  // The reference's list has each text once.
  EXPECT_EQ(dataset.problems.skipped_label_count,
            static_cast<int>(expected_.Find("warnings")->array().size()));
  EXPECT_EQ(dataset.problems.unreadable_image_count, 0);
}

INSTANTIATE_TEST_SUITE_P(Yaml, DatasetFixtureTest,
                         ::testing::Values("data.yaml", "data_list.yaml", "data_list_ok.yaml",
                                           "data_multi.yaml", "data_corrupt.yaml",
                                           "data_coco.yaml"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

TEST(DatasetFixtureCorruptTest, CountsBrokenHeadersAndKeepsTheRest) {
  if (!std::filesystem::exists(FixturePath("dataset/data_corrupt.yaml"))) {
    GTEST_SKIP() << "no shared fixtures beside the checkout";
  }
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config,
                       ReadDatasetYaml(FixturePath("dataset/data_corrupt.yaml"), ""));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadTrainSplit(config, kOptions));
  // 200 is whole, 201 is cut behind its header (the loader finds that), 202 and 203 have none.
  EXPECT_EQ(dataset.items.size(), 2U);
  EXPECT_EQ(dataset.problems.unreadable_image_count, 2);
}

}  // namespace
}  // namespace libreyolo::data
