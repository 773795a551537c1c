// The parts of the augmentation, each alone. train_item_test.cc has them together.
#include <cmath>
#include <string>

#include "server/worker/data/augment_draws.h"
#include "server/worker/data/color_shift.h"
#include "server/worker/data/scale_warp.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

TEST(ColorShiftTest, IsOpenCvsToTheByte) {
  const JsonValue cases = ReadJsonOrDie(TestImagePath("color_crc32.json"));
  ASSERT_TRUE(cases.is_array());
  ASSERT_GE(cases.array().size(), 8U);
  for (const JsonValue& row : cases.array()) {
    SCOPED_TRACE(row.ToCompact());
    const auto number = [&row](size_t i) { return static_cast<int>(row.array()[i].int_value()); };
    Image image = NoiseImage(512, 256, 5);
    ShiftColors({number(0), number(1), number(2)}, image);
    EXPECT_EQ(Crc32(image.rgb), row.array()[3].int_value());
  }
}

TEST(ColorShiftTest, GreysKeepTheirHue) {
  Image image;
  image.Reset(3, 1);
  image.rgb = {0, 0, 0, 128, 128, 128, 255, 255, 255};
  ShiftColors({5, 0, -10}, image);
  EXPECT_THAT(image.rgb, ::testing::ElementsAre(0, 0, 0, 118, 118, 118, 245, 245, 245));
}

// The rule in double precision and as plainly as possible.
int PlainSample(const Image& image, double x, double y, int channel) {
  const auto at = [&](int column, int row) -> double {
    if (column < 0 || row < 0 || column >= image.width || row >= image.height) return kPadValue;
    return image.rgb[(static_cast<size_t>(row) * image.width + column) * 3 + channel];
  };
  const int column = static_cast<int>(std::floor(x));
  const int row = static_cast<int>(std::floor(y));
  const double a = x - column;
  const double b = y - row;
  const double top = at(column, row) * (1 - a) + at(column + 1, row) * a;
  const double bottom = at(column, row + 1) * (1 - a) + at(column + 1, row + 1) * a;
  return static_cast<int>(std::lrint(top * (1 - b) + bottom * b));
}

class ScaleWarpTest : public ::testing::TestWithParam<ScaleTransform> {};

TEST_P(ScaleWarpTest, FollowsTheRule) {
  const ScaleTransform& transform = GetParam();
  const Image source = NoiseImage(96, 80, 11);
  ScaleWarper warper;
  Image out;
  warper.Warp(source, transform, 48, 40, out);
  int differing = 0;
  for (int y = 0; y < 40; ++y) {
    for (int i = 0; i < 48 * 3; ++i) {
      const int want = PlainSample(source, (i / 3 - transform.offset_x) / transform.scale,
                                   (y - transform.offset_y) / transform.scale, i % 3);
      const int got = out.rgb[static_cast<size_t>(y) * 48 * 3 + i];
      ASSERT_LE(std::abs(got - want), 1) << i / 3 << " " << y;
      differing += got != want;
    }
  }
  EXPECT_LT(differing, 48 * 40 * 3 / 500);  // float32 rounds a few halves the other way
}

TEST_P(ScaleWarpTest, ReadsTheVisiblePartAlone) {
  const ScaleTransform& transform = GetParam();
  Image source = NoiseImage(96, 80, 11);
  ScaleWarper warper;
  Image want;
  warper.Warp(source, transform, 48, 40, want);
  const PixelRect part = VisiblePart(transform, 96, 80, 48, 40);
  for (int y = 0; y < 80; ++y) {
    for (int x = 0; x < 96; ++x) {
      const bool is_visible =
          x >= part.x && x < part.x + part.width && y >= part.y && y < part.y + part.height;
      if (!is_visible) source.rgb[(static_cast<size_t>(y) * 96 + x) * 3] ^= 0xFF;
    }
  }
  Image out;
  warper.Warp(source, transform, 48, 40, out);
  EXPECT_EQ(out.rgb, want.rgb);
}

INSTANTIATE_TEST_SUITE_P(
    Transforms, ScaleWarpTest,
    ::testing::Values(ScaleTransform{1, 0, 0}, ScaleTransform{0.5, 0, 0},
                      ScaleTransform{1.5, -4.8, 3.9}, ScaleTransform{0.61, 4.7, -3.3},
                      ScaleTransform{1.2345, 4.8, 4.0}, ScaleTransform{0.5, -30, -30},
                      ScaleTransform{1.0, 1000, 0}, ScaleTransform{1.0, -1000, 0}));

TEST(ScaleWarpPartTest, AnOutputBesideTheSourceSeesNothing) {
  EXPECT_EQ(VisiblePart({1.0, 1000, 0}, 96, 80, 48, 40).width, 0);
  EXPECT_EQ(VisiblePart({1.0, 0, -1000}, 96, 80, 48, 40).height, 0);
}

TEST(SeededDrawsTest, RangesAndRepetition) {
  SeededDraws draws(3);
  SeededDraws again(3);
  SeededDraws other(4);
  bool is_other = false;
  int seen[3] = {};
  for (int i = 0; i < 1000; ++i) {
    const double value = draws.Random();
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
    EXPECT_EQ(value, again.Random());
    is_other |= value != other.Random();
    const int integer = draws.Integer(-1, 1);
    again.Integer(-1, 1);
    ASSERT_GE(integer, -1);
    ASSERT_LE(integer, 1);
    ++seen[integer + 1];
  }
  EXPECT_TRUE(is_other);
  for (const int count : seen) EXPECT_GT(count, 250);
}

}  // namespace
}  // namespace libreyolo::data
