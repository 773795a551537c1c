#include "server/worker/data/loader.h"

#include <atomic>
#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kSide = 32;

class LoaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = (std::filesystem::path(::testing::TempDir()) / ("loader_" + name)).string();
    std::filesystem::remove_all(folder_);
    ASSERT_OK(MakeDirectories(folder_));
    dataset_.input_width = kSide;
    dataset_.input_height = kSide;
    dataset_.class_count = 100;
    options_.batch_size = 3;
    options_.seed = 7;
    // The class of a picture's only box is its index; as it is, in colour and place.
    options_.augment.mosaic_probability = 0;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void AddImages(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string path = absl::StrCat(folder_, "/", i, ".png");
      std::filesystem::copy_file(TestImagePath("rgb.png"), path);
      dataset_.items.push_back(
          {path, {13, 9}, {{2, 2, 20, 20, static_cast<int>(dataset_.items.size())}}});
    }
  }
  void Break(size_t index) { ASSERT_OK(WriteFile(dataset_.items[index].image_path, "no picture")); }

  static std::vector<int> ClassesOf(const Batch& batch) {
    std::vector<int> classes;
    for (int i = 0; i < batch.size; ++i) {
      classes.push_back(static_cast<int>(batch.targets[i * kMaxTargets * kTargetFields]));
    }
    return classes;
  }
  static uint32_t DigestOf(const Batch& batch) {
    const size_t images = size_t{3} * kSide * kSide * batch.size * sizeof(float);
    const size_t targets = size_t{kMaxTargets} * kTargetFields * batch.size * sizeof(float);
    uLong digest =
        crc32(0, reinterpret_cast<const Bytef*>(batch.images.get()), static_cast<uInt>(images));
    digest = crc32(digest, reinterpret_cast<const Bytef*>(batch.targets.get()),
                   static_cast<uInt>(targets));
    return static_cast<uint32_t>(digest);
  }

  std::string folder_;
  Dataset dataset_;
  LoaderOptions options_;
};

TEST_F(LoaderTest, AnEpochHasEveryPictureOnceAndDropsThePartialBatch) {
  AddImages(11);
  options_.worker_count = 2;
  DataLoader loader(dataset_, options_);
  ASSERT_EQ(loader.batches_per_epoch(), 3);
  std::vector<std::vector<int>> epochs(2);
  for (std::vector<int>& epoch : epochs) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK_AND_ASSIGN(const Batch batch, loader.Next());
      EXPECT_EQ(batch.size, 3);
      for (const int picture : ClassesOf(batch)) epoch.push_back(picture);
    }
    EXPECT_THAT(std::set<int>(epoch.begin(), epoch.end()), SizeIs(9));
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST_F(LoaderTest, BatchesDoNotDependOnTheWorkers) {
  AddImages(12);
  options_.augment.mosaic_probability = 1;
  std::vector<std::vector<uint32_t>> digests;
  for (const int workers : {0, 1, 5}) {
    options_.worker_count = workers;
    DataLoader loader(dataset_, options_);
    std::vector<uint32_t>& digest = digests.emplace_back();
    for (int i = 0; i < 9; ++i) {
      ASSERT_OK_AND_ASSIGN(const Batch batch, loader.Next());
      digest.push_back(DigestOf(batch));
    }
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
  EXPECT_THAT(std::set<uint32_t>(digests[0].begin(), digests[0].end()), SizeIs(9));
}

TEST_F(LoaderTest, AnotherSeedGivesOtherBatches) {
  AddImages(12);
  options_.worker_count = 0;
  DataLoader one(dataset_, options_);
  options_.seed = 8;
  DataLoader two(dataset_, options_);
  ASSERT_OK_AND_ASSIGN(const Batch first, one.Next());
  ASSERT_OK_AND_ASSIGN(const Batch second, two.Next());
  EXPECT_NE(DigestOf(first), DigestOf(second));
}

TEST_F(LoaderTest, BrokenPicturesAreReplacedAndCounted) {
  AddImages(6);
  Break(2);
  Break(3);
  options_.worker_count = 3;
  DataLoader loader(dataset_, options_);
  std::multiset<int> seen;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const Batch batch, loader.Next());
    for (const int picture : ClassesOf(batch)) seen.insert(picture);
  }
  EXPECT_EQ(seen, (std::multiset<int>{0, 1, 4, 4, 4, 5}));
  EXPECT_EQ(loader.broken_images().count(), 2);
  EXPECT_THAT(loader.broken_images().examples(), SizeIs(2));
  EXPECT_THAT(loader.broken_images().examples()[0], HasSubstr("not an image"));
}

TEST_F(LoaderTest, APictureThatChangedItsSizeIsBroken) {
  AddImages(3);
  dataset_.items[1].size = {14, 9};
  options_.worker_count = 0;
  DataLoader loader(dataset_, options_);
  ASSERT_OK(loader.Next());
  EXPECT_EQ(loader.broken_images().count(), 1);
}

TEST_F(LoaderTest, NothingButBrokenPicturesIsAnError) {
  AddImages(4);
  for (size_t i = 0; i < 4; ++i) Break(i);
  for (const int workers : {0, 2}) {
    options_.worker_count = workers;
    DataLoader loader(dataset_, options_);
    EXPECT_THAT(loader.Next(), FailsWith(reason::kDatasetInvalid));
  }
}

TEST_F(LoaderTest, TooFewPicturesForABatch) {
  AddImages(2);
  DataLoader loader(dataset_, options_);
  EXPECT_EQ(loader.batches_per_epoch(), 0);
  EXPECT_THAT(loader.Next(), FailsWith(reason::kWindowNotFilled));
}

TEST_F(LoaderTest, MakesNoMoreBatchesAheadThanAsked) {
  AddImages(6);
  std::atomic<int> made{0};
  options_.worker_count = 2;
  options_.prefetch_batch_count = 2;
  options_.before_item = [&made] { ++made; };
  {
    DataLoader loader(dataset_, options_);
    for (int i = 0; i < 4; ++i) ASSERT_OK(loader.Next());
  }  // the workers have ended
  EXPECT_GE(made, 4 * 3);
  EXPECT_LE(made, (4 + 2) * 3);
}

TEST_F(LoaderTest, BuffersComeFromTheCallerAndAreReused) {
  AddImages(6);
  std::atomic<int> allocated{0};
  options_.worker_count = 2;
  options_.prefetch_batch_count = 1;
  options_.allocate = [&allocated](size_t count) {
    ++allocated;
    return FloatBuffer(new float[count]);
  };
  Batch kept;
  {
    DataLoader loader(dataset_, options_);
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK_AND_ASSIGN(Batch batch, loader.Next());
      kept = std::move(batch);
    }
  }
  // Images and targets of the batch in use, the one ahead, and the one that is being let go.
  EXPECT_LE(allocated, 2 * 3);
  EXPECT_GE(ClassesOf(kept)[0], 0);  // a batch outlives its loader
}

TEST_F(LoaderTest, EndsWhileWorkersAreBusy) {
  AddImages(6);
  options_.worker_count = 4;
  for (int i = 0; i < 20; ++i) DataLoader loader(dataset_, options_);
}

}  // namespace
}  // namespace libreyolo::data
