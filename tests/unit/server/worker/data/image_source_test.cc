#include "server/worker/data/image_source.h"

#include <filesystem>
#include <string>

#include "server/worker/data/image_decode.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ListImagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/list_images_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    ASSERT_OK(MakeDirectories(folder_));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Listing looks at names only.
  void Touch(const std::string& name) { ASSERT_OK(WriteFile(folder_ + "/" + name, "x")); }

  std::string folder_;
};

TEST_F(ListImagesTest, AFileIsTakenAsItIs) {
  Touch("notes.md");
  ASSERT_OK_AND_ASSIGN(const ImageList list, ListImages(folder_ + "/notes.md"));
  EXPECT_THAT(list.paths, ElementsAre(folder_ + "/notes.md"));
}

TEST_F(ListImagesTest, AFoldersImagesInOrderOfPath) {
  for (const char* name :
       {"b.png", "a.JPG", "c.WebP", "d.jpeg", "A.bmp", "e.txt", "f.gif", "g.TIF", "h.pfm", "jpg"}) {
    Touch(name);
  }
  ASSERT_OK(MakeDirectories(folder_ + "/sub"));
  ASSERT_OK(MakeDirectories(folder_ + "/folder.jpg"));
  Touch("sub/z.png");
  ASSERT_OK_AND_ASSIGN(const ImageList list, ListImages(folder_));
  EXPECT_THAT(list.paths, ElementsAre(folder_ + "/A.bmp", folder_ + "/a.JPG", folder_ + "/b.png",
                                      folder_ + "/c.WebP", folder_ + "/d.jpeg"));
  EXPECT_EQ(list.unsupported_count, 3);
}

TEST_F(ListImagesTest, NothingThere) {
  const absl::Status status = ListImages(folder_ + "/absent").status();
  EXPECT_THAT(status, FailsWith(reason::kSourceNotFound));
  EXPECT_EQ(status.message(), "no images found at: " + folder_ + "/absent");
}

TEST_F(ListImagesTest, AFolderWithoutImages) {
  Touch("notes.md");
  const absl::Status status = ListImages(folder_).status();
  EXPECT_THAT(status, FailsWith(reason::kSourceNotFound));
  EXPECT_EQ(status.message(), "no images found at: " + folder_);
}

TEST_F(ListImagesTest, CountsWhatItCannotDecode) {
  Touch("a.gif");
  Touch("b.tiff");
  const absl::Status status = ListImages(folder_).status();
  EXPECT_THAT(status, FailsWith(reason::kSourceNotFound));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(2 in an unsupported format"));
}

TEST(SampleImageTest, IsAPictureOfTheStatedSize) {
  ASSERT_OK_AND_ASSIGN(const Image image, DecodeImage(SampleImageJpeg(), kSampleImageName));
  EXPECT_EQ(image.width, 640);
  EXPECT_EQ(image.height, 480);
}

TEST(SampleImageTest, IsTheFileInTheTree) {
  ASSERT_OK_AND_ASSIGN(const std::string file, ReadFile(std::string(LIBREYOLO_SOURCE_DIR) +
                                                        "/server/worker/data/sample.jpg"));
  EXPECT_TRUE(SampleImageJpeg() == file);
  EXPECT_LT(file.size(), 150U << 10);
}

}  // namespace
}  // namespace libreyolo::data
