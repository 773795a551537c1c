#include "server/worker/data/image_decode.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/match.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::HasSubstr;

std::string ReadTestImage(const std::string& name) {
  const absl::StatusOr<std::string> bytes = ReadFile(TestImagePath(name));
  EXPECT_OK(bytes);
  return bytes.value_or("");
}

std::string MessageOf(const std::string& bytes, const DecodeLimits& limits = {}) {
  return std::string(DecodeImage(bytes, "x", limits).status().message());
}

// Every picture of tests/data/images against what Pillow makes of it (expected.json).
TEST(ImageDecodeTest, AgreesWithPillow) {
  const JsonValue expected = ReadJsonOrDie(TestImagePath("expected.json"));
  ASSERT_TRUE(expected.is_object());
  int count = 0;
  ImageDecoder decoder;
  Image image;
  for (const auto& [name, want] : expected.object()) {
    SCOPED_TRACE(name);
    ASSERT_OK(decoder.DecodeFile(TestImagePath(name), image));
    EXPECT_EQ(image.width, want.Find("width")->int_value());
    EXPECT_EQ(image.height, want.Find("height")->int_value());
    ASSERT_EQ(image.rgb.size(), static_cast<size_t>(image.width) * image.height * 3);
    EXPECT_EQ(Crc32(image.rgb), want.Find("crc32")->int_value());
    ++count;
  }
  EXPECT_GE(count, 20);
}

TEST(ImageDecodeTest, ReadsSizesWithoutDecoding) {
  const JsonValue expected = ReadJsonOrDie(TestImagePath("expected.json"));
  ImageDecoder decoder;
  for (const auto& [name, want] : expected.object()) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const ImageSize size, decoder.ReadFileSize(TestImagePath(name)));
    EXPECT_EQ(size.width, want.Find("width")->int_value());
    EXPECT_EQ(size.height, want.Find("height")->int_value());
  }
}

TEST(ImageDecodeTest, ContentDecidesNotTheName) {
  ASSERT_OK_AND_ASSIGN(const Image image, DecodeImage(ReadTestImage("rgb.png"), "picture.jpg"));
  EXPECT_EQ(image.width, 13);
}

// Cut at any point before its last pixels, a file must be refused: no grey or black filler.
TEST(ImageDecodeTest, TruncatedFilesAreErrors) {
  for (const char* name :
       {"rgb.jpg", "progressive.jpg", "gray.jpg", "rgb.png", "interlaced.png", "palette.png",
        "bits24.bmp", "bits8.bmp", "os2.bmp", "lossless.webp", "lossy.webp"}) {
    const std::string whole = ReadTestImage(name);
    // The last bytes may be a trailer after the picture: PNG's IEND chunk and checksums, padding.
    const bool is_png = absl::EndsWith(name, ".png");
    const size_t trailer = is_png ? 12 + 4 + 4 + 1 : 2;
    ASSERT_GT(whole.size(), trailer);
    for (size_t length = 0; length + trailer < whole.size(); ++length) {
      EXPECT_THAT(DecodeImage(whole.substr(0, length), name), FailsWith(reason::kSourceUnreadable))
          << name << " cut to " << length << " of " << whole.size();
    }
  }
}

TEST(ImageDecodeTest, CorruptPngDataIsAnError) {
  std::string bytes = ReadTestImage("gray.png");
  const size_t data = bytes.find("IDAT");
  ASSERT_NE(data, std::string::npos);
  bytes[data + 10] = static_cast<char>(bytes[data + 10] ^ 0x55);
  EXPECT_THAT(DecodeImage(bytes, "x"), FailsWith(reason::kSourceUnreadable));
}

TEST(ImageDecodeTest, NamesTheFileAndTheFault) {
  const std::string whole = ReadTestImage("rgb.jpg");
  const absl::Status status =
      DecodeImage(whole.substr(0, whole.size() - 20), "photos/a.jpg").status();
  EXPECT_EQ(std::string(status.message()),
            "cannot read image photos/a.jpg: JPEG: the file is truncated");
}

TEST(ImageDecodeTest, NamesFormatsItDoesNotDecode) {
  EXPECT_EQ(MessageOf(ReadTestImage("unsupported.gif")),
            "cannot read image x: GIF is not supported");
  EXPECT_EQ(MessageOf(ReadTestImage("unsupported.tif")),
            "cannot read image x: TIFF is not supported");
  EXPECT_EQ(MessageOf("PF\n2 2\n-1.0\n0000000000000000"),
            "cannot read image x: PFM is not supported");
  EXPECT_THAT(MessageOf(ReadTestImage("animated.webp")), HasSubstr("animated WebP"));
  EXPECT_EQ(MessageOf("hello, world"), "cannot read image x: not an image");
  EXPECT_EQ(MessageOf(""), "cannot read image x: not an image");
}

// A small file may claim an enormous picture; the claim is checked before memory is taken.
TEST(ImageDecodeTest, RefusesPicturesOverTheLimit) {
  DecodeLimits limits;
  limits.max_pixels = 13 * 9 - 1;
  for (const char* name : {"rgb.jpg", "rgb.png", "lossy.webp", "bits24.bmp"}) {
    EXPECT_THAT(MessageOf(ReadTestImage(name), limits),
                HasSubstr("13 x 9 pixels, more than the limit of 116"))
        << name;
  }
  limits.max_pixels = 13 * 9;
  EXPECT_OK(DecodeImage(ReadTestImage("rgb.png"), "x", limits));
}

TEST(ImageDecodeTest, RefusesBombsWithTheDefaultLimits) {
  std::string bytes = ReadTestImage("bits24.bmp");
  for (const size_t offset : {18, 22}) bytes.replace(offset, 4, std::string("\0\0\1\0", 4));
  EXPECT_THAT(MessageOf(bytes), HasSubstr("65536 x 65536 pixels"));
}

TEST(ImageDecodeTest, RefusesBrokenBmpHeaders) {
  const std::string good = ReadTestImage("bits24.bmp");
  const auto with = [&good](size_t offset, const std::string& value) {
    std::string bytes = good;
    bytes.replace(offset, value.size(), value);
    return bytes;
  };
  EXPECT_THAT(MessageOf(with(18, std::string(4, '\0'))), HasSubstr("0 x 9"));
  EXPECT_THAT(MessageOf(with(18, "\xF0\xFF\xFF\xFF")), HasSubstr("-16 x 9"));
  // The most negative height has no positive counterpart in 32 bits.
  EXPECT_THAT(MessageOf(with(22, std::string("\0\0\0\x80", 4))), HasSubstr("bounds"));
  EXPECT_THAT(MessageOf(with(30, std::string("\1\0\0\0", 4))), HasSubstr("compressed"));
  EXPECT_THAT(MessageOf(with(10, "\xF0\xFF\xFF\xFF")), HasSubstr("truncated"));
  EXPECT_THAT(MessageOf(with(14, std::string("\x05\0\0\0", 4))), HasSubstr("header"));
  EXPECT_THAT(MessageOf(with(28, std::string("\x07\0", 2))), HasSubstr("BMP"));
}

TEST(ImageDecodeTest, MissingFileAndFolder) {
  EXPECT_THAT(DecodeImageFile("/nonexistent/a.jpg"), FailsWith(reason::kSourceNotFound));
  EXPECT_THAT(DecodeImageFile(::testing::TempDir()), FailsWith(reason::kSourceUnreadable));
}

TEST(ImageDecodeTest, DoesNotWaitForAFifo) {
  const std::string path = ::testing::TempDir() + "/image_decode_test.fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(DecodeImageFile(path), FailsWith(reason::kSourceUnreadable));
  std::remove(path.c_str());
}

TEST(ImageDecodeTest, RefusesFilesOverTheLimit) {
  DecodeLimits limits;
  limits.max_file_bytes = 64;
  EXPECT_THAT(std::string(DecodeImageFile(TestImagePath("rgb.png"), limits).status().message()),
              HasSubstr("the limit is 64"));
}

TEST(ImageDecodeTest, ADecoderGoesOnAfterAnError) {
  ImageDecoder decoder;
  Image image;
  for (const char* name : {"rgb.jpg", "rgb.png", "lossy.webp", "bits24.bmp"}) {
    const std::string whole = ReadTestImage(name);
    EXPECT_FALSE(decoder.Decode(whole.substr(0, 60), name, image).ok()) << name;
    EXPECT_OK(decoder.Decode(whole, name, image));
  }
}

}  // namespace
}  // namespace libreyolo::data
