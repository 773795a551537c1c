#include "server/worker/data/sample_dataset.h"

#include <filesystem>
#include <string>

#include "server/worker/data/dataset.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;

TEST(SampleDatasetTest, PicturesAreTheSameEverywhere) {
  const SamplePicture first = DrawSamplePicture(0);
  EXPECT_EQ(first.image.width, 640);
  EXPECT_EQ(first.image.height, 480);
  // A change of the drawing needs a new folder name: sample_dataset.cc, kFolderName.
  EXPECT_EQ(Crc32(first.image.rgb), 1020768864U);
  EXPECT_EQ(Crc32(DrawSamplePicture(511).image.rgb), 2493871837U);
}

TEST(SampleDatasetTest, BoxesLieInThePicture) {
  bool seen[3] = {};
  for (int i = 0; i < 16; ++i) {
    const SamplePicture picture = DrawSamplePicture(i);
    EXPECT_GE(picture.rows.size(), 1U);
    for (const LabelRow& row : picture.rows) {
      ASSERT_GE(row.class_id, 0);
      ASSERT_LT(row.class_id, 3);
      seen[row.class_id] = true;
      EXPECT_GE(row.center_x - row.width / 2, -1e-9);
      EXPECT_LE(row.center_x + row.width / 2, 1 + 1e-9);
      EXPECT_GE(row.center_y - row.height / 2, -1e-9);
      EXPECT_LE(row.center_y + row.height / 2, 1 + 1e-9);
    }
  }
  EXPECT_TRUE(seen[0] && seen[1] && seen[2]);
}

class EnsureSampleDatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    cache_ = (std::filesystem::path(::testing::TempDir()) / ("sample_" + name)).string();
    std::filesystem::remove_all(cache_);
  }
  void TearDown() override { std::filesystem::remove_all(cache_); }
  std::string cache_;
};

TEST_F(EnsureSampleDatasetTest, MakesItOnceAndWhole) {
  int heard = 0;
  ASSERT_OK_AND_ASSIGN(const std::string yaml,
                       EnsureSampleDataset(cache_, [&heard](int done) { heard = done; }));
  EXPECT_EQ(heard, kSampleDatasetCount);
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config, ReadDatasetYaml(yaml, ""));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadTrainSplit(config, {}));
  EXPECT_EQ(dataset.items.size(), static_cast<size_t>(kSampleDatasetCount));
  EXPECT_EQ(dataset.class_count, 3);
  EXPECT_EQ(dataset.problems.skipped_label_count, 0);
  EXPECT_EQ(dataset.problems.unreadable_image_count, 0);
  for (const DatasetItem& item : dataset.items) EXPECT_FALSE(item.boxes.empty());
  // Nothing but the dataset is left, and the second call makes nothing.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache_), {}), 1);
  ASSERT_OK_AND_ASSIGN(const std::string again,
                       EnsureSampleDataset(cache_, [](int) { ADD_FAILURE(); }));
  EXPECT_EQ(again, yaml);
}

TEST_F(EnsureSampleDatasetTest, SomethingElseInItsPlace) {
  ASSERT_OK(MakeDirectories(cache_ + "/sample-v1"));
  EXPECT_THAT(EnsureSampleDataset(cache_), FailsWith(reason::kDatasetInvalid));
}

TEST_F(EnsureSampleDatasetTest, AFolderThatCannotBeMade) {
  EXPECT_FALSE(EnsureSampleDataset("/proc/nowhere").ok());
}

}  // namespace
}  // namespace libreyolo::data
