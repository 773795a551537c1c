#include "server/worker/data/letterbox.h"

#include <cstdlib>
#include <string>

#include "server/worker/data/image_decode.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

std::string PreprocessPath(const std::string& name) {
  return std::string(LIBREYOLO_SHARED_DIR) + "/fixtures/yolo9/preprocess/" + name;
}

// The canvas in the order of the network's input, and the check that floats are its bytes / 255.
std::vector<uint8_t> PlanesOf(const Image& canvas, const std::vector<float>& chw) {
  const size_t plane = canvas.rgb.size() / 3;
  std::vector<uint8_t> bytes(canvas.rgb.size());
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < plane; ++i) {
      bytes[c * plane + i] = canvas.rgb[3 * i + c];
      EXPECT_EQ(chw[c * plane + i], static_cast<float>(canvas.rgb[3 * i + c]) / 255.0F);
    }
  }
  return bytes;
}

class LetterboxFixtureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ReadFile(PreprocessPath("preprocess.json")).ok()) {
      GTEST_SKIP() << "no shared fixtures beside the checkout";
    }
    fixture_ = ReadJsonOrDie(PreprocessPath("preprocess.json"));
  }

  void CheckImage(const JsonValue& row) {
    ASSERT_OK(decoder_.DecodeFile(PreprocessPath(row.Find("file")->string_value()), image_));
    EXPECT_EQ(image_.width, row.Find("original_size_wh")->array()[0].int_value());
    EXPECT_EQ(image_.height, row.Find("original_size_wh")->array()[1].int_value());
    const int height = static_cast<int>(row.Find("input_size_hw")->array()[0].int_value());
    const int width = static_cast<int>(row.Find("input_size_hw")->array()[1].int_value());
    const PadMode pad = row.Find("pad")->string_value() == "center" ? PadMode::kCenter  //
                                                                    : PadMode::kTopLeft;
    Image canvas;
    std::vector<float> chw(static_cast<size_t>(width) * height * 3, -1.0F);
    letterboxer_.LetterboxBytes(image_, width, height, pad, canvas);
    letterboxer_.Letterbox(image_, width, height, pad, chw.data());
    const std::vector<uint8_t> planes = PlanesOf(canvas, chw);
    if (row.Find("lossless")->bool_value()) {
      EXPECT_EQ(Crc32(planes), row.Find("canvas_crc32")->int_value());
      return;
    }
    // JPEG decoders may differ in the last bit.
    const size_t plane = planes.size() / 3;
    for (size_t c = 0; c < 3; ++c) {
      int64_t sum = 0;
      for (size_t i = 0; i < plane; ++i) sum += planes[c * plane + i];
      const int64_t want = row.Find("canvas_byte_sum_per_channel")->array()[c].int_value();
      EXPECT_LE(std::abs(sum - want), want / 1000);
    }
  }

  JsonValue fixture_;
  ImageDecoder decoder_;
  Letterboxer letterboxer_;  // one for all: buffers of another size must not shine through
  Image image_;
};

TEST_F(LetterboxFixtureTest, CanvasIsTheReferencesToTheByte) {
  ASSERT_GE(fixture_.Find("images")->array().size(), 15U);
  for (const JsonValue& row : fixture_.Find("images")->array()) {
    SCOPED_TRACE(row.ToCompact().substr(0, 90));
    CheckImage(row);
  }
}

TEST_F(LetterboxFixtureTest, ResizeIsTheReferencesToTheByte) {
  ASSERT_GE(fixture_.Find("resize")->array().size(), 20U);
  for (const JsonValue& row : fixture_.Find("resize")->array()) {
    SCOPED_TRACE(row.ToCompact());
    const std::string path = PreprocessPath(row.Find("image")->string_value() + ".png");
    ASSERT_OK(decoder_.DecodeFile(path, image_));
    const int width = static_cast<int>(row.Find("to_wh")->array()[0].int_value());
    const int height = static_cast<int>(row.Find("to_wh")->array()[1].int_value());
    Image resized;
    letterboxer_.Resize(image_, width, height, resized);
    EXPECT_EQ(Crc32(resized.rgb), row.Find("crc32")->int_value());
  }
}

// resize_crc32.json holds what OpenCV makes of seeded pictures.
TEST(LetterboxTest, ResizeOfNoiseIsOpenCvsToTheByte) {
  const JsonValue cases = ReadJsonOrDie(TestImagePath("resize_crc32.json"));
  ASSERT_TRUE(cases.is_array());
  ASSERT_GE(cases.array().size(), 100U);
  Letterboxer letterboxer;
  Image resized;
  for (const JsonValue& row : cases.array()) {
    SCOPED_TRACE(row.ToCompact());
    const auto number = [&row](size_t i) { return static_cast<int>(row.array()[i].int_value()); };
    const Image image = NoiseImage(number(0), number(1), static_cast<uint32_t>(number(4)));
    letterboxer.Resize(image, number(2), number(3), resized);
    EXPECT_EQ(Crc32(resized.rgb), row.array()[5].int_value());
  }
}

TEST(LetterboxTest, Geometry) {
  const LetterboxGeometry wide = ComputeLetterbox(200, 90, 128, 128, PadMode::kCenter);
  EXPECT_DOUBLE_EQ(wide.ratio, 0.64);
  EXPECT_EQ(wide.width, 128);
  EXPECT_EQ(wide.height, 57);  // floor of 57.6
  EXPECT_EQ(wide.left, 0);
  EXPECT_EQ(wide.top, 35);
  const LetterboxGeometry corner = ComputeLetterbox(200, 90, 128, 128, PadMode::kTopLeft);
  EXPECT_EQ(corner.left, 0);
  EXPECT_EQ(corner.top, 0);
  // A line of pixels never shrinks to nothing.
  EXPECT_EQ(ComputeLetterbox(5000, 1, 64, 64, PadMode::kTopLeft).height, 1);
  EXPECT_EQ(ComputeLetterbox(1, 5000, 64, 64, PadMode::kTopLeft).width, 1);
  EXPECT_EQ(ComputeLetterbox(10, 10, 64, 32, PadMode::kTopLeft).width, 32);
}

TEST(LetterboxTest, PaddingIsGreyOnBothSides) {
  const Image image = NoiseImage(8, 2, 1);
  Letterboxer letterboxer;
  Image canvas = NoiseImage(8, 8, 2);  // what was there before must be gone
  letterboxer.LetterboxBytes(image, 8, 8, PadMode::kCenter, canvas);
  for (int y = 0; y < 8; ++y) {
    for (int i = 0; i < 24; ++i) {
      const uint8_t want = y == 3 || y == 4 ? image.rgb[static_cast<size_t>(y - 3) * 24 + i] : 114;
      EXPECT_EQ(canvas.rgb[static_cast<size_t>(y) * 24 + i], want);
    }
  }
}

TEST(LetterboxTest, ReusesItsBuffers) {
  const Image image = NoiseImage(50, 40, 3);
  Letterboxer letterboxer;
  Image canvas;
  letterboxer.LetterboxBytes(image, 64, 64, PadMode::kTopLeft, canvas);
  const uint8_t* before = canvas.rgb.data();
  letterboxer.LetterboxBytes(image, 64, 64, PadMode::kTopLeft, canvas);
  EXPECT_EQ(canvas.rgb.data(), before);
}

TEST(LetterboxDeathTest, RefusesToWriteOverItsSource) {
  Image image = NoiseImage(4, 4, 1);
  Letterboxer letterboxer;
  EXPECT_DEATH(letterboxer.Resize(image, 2, 2, image), "image != &out");
}

}  // namespace
}  // namespace libreyolo::data
