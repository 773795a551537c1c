// BMP by stb_image. It reads zeros past the end of its input and looks colours up in a palette that
// may be too short, so the header is checked here first.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/worker/data/image_codecs.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#include <stb/stb_image.h>

namespace libreyolo::data {
namespace {

constexpr int64_t kFileHeaderBytes = 14;
constexpr int64_t kCoreHeaderBytes = 12;  // of OS/2: 16-bit sizes
constexpr int64_t kInfoHeaderBytes = 40;

struct BmpHeader {
  ImageSize size;
  int bits_per_pixel = 0;
  int64_t pixels_offset = 0;
  int64_t row_bytes = 0;
};

uint32_t Load32(absl::string_view bytes, size_t offset) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data()) + offset;
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
         static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}

uint32_t Load16(absl::string_view bytes, size_t offset) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data()) + offset;
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8;
}

absl::StatusOr<BmpHeader> ReadHeader(absl::string_view bytes) {
  const auto truncated = absl::InvalidArgumentError("the file is truncated");
  if (bytes.size() < kFileHeaderBytes + kCoreHeaderBytes) return truncated;
  BmpHeader header;
  header.pixels_offset = Load32(bytes, 10);
  const int64_t header_bytes = Load32(bytes, 14);
  int64_t width = 0;
  int64_t height = 0;
  if (header_bytes == kCoreHeaderBytes) {
    width = Load16(bytes, 18);
    height = Load16(bytes, 20);
    header.bits_per_pixel = static_cast<int>(Load16(bytes, 24));
  } else {
    if (header_bytes < kInfoHeaderBytes) {
      return absl::InvalidArgumentError("unknown kind of BMP header");
    }
    if (static_cast<int64_t>(bytes.size()) < kFileHeaderBytes + kInfoHeaderBytes) return truncated;
    width = static_cast<int32_t>(Load32(bytes, 18));
    // Negative: the rows run from top to bottom.
    height = std::abs(int64_t{static_cast<int32_t>(Load32(bytes, 22))});
    header.bits_per_pixel = static_cast<int>(Load16(bytes, 28));
    const uint32_t compression = Load32(bytes, 30);
    if (compression != 0 && compression != 3) {
      return absl::InvalidArgumentError("compressed BMP is not supported");
    }
  }
  if (width > INT32_MAX || height > INT32_MAX) {
    return absl::InvalidArgumentError("a height outside all bounds");
  }
  header.size = {static_cast<int>(width), static_cast<int>(height)};
  header.row_bytes = (width * header.bits_per_pixel + 31) / 32 * 4;
  if (header.bits_per_pixel <= 8) {
    const int64_t entry_bytes = header_bytes == kCoreHeaderBytes ? 3 : 4;
    const int64_t colors = (header.pixels_offset - kFileHeaderBytes - header_bytes) / entry_bytes;
    if (colors < 1) return absl::InvalidArgumentError("a BMP without its palette");
  }
  return header;
}

}  // namespace

absl::StatusOr<ImageSize> ReadBmpSize(absl::string_view bytes) {
  LY_ASSIGN_OR_RETURN(const BmpHeader header, ReadHeader(bytes));
  return header.size;
}

absl::Status DecodeBmp(absl::string_view bytes, const DecodeLimits& limits, Image& out) {
  LY_ASSIGN_OR_RETURN(const BmpHeader header, ReadHeader(bytes));
  LY_RETURN_IF_ERROR(CheckSize(header.size, limits));
  const int64_t size_bytes = static_cast<int64_t>(bytes.size());
  if (size_bytes > INT32_MAX) return absl::InvalidArgumentError("larger than 2 GiB");
  if (header.row_bytes * header.size.height > size_bytes - header.pixels_offset) {
    return absl::InvalidArgumentError("the file is truncated");
  }
  int width = 0;
  int height = 0;
  int channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()),
                            static_cast<int>(size_bytes), &width, &height, &channels, 3),
      &stbi_image_free);
  if (pixels == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("broken BMP: ", stbi_failure_reason()));
  }
  out.Reset(width, height);
  std::memcpy(out.rgb.data(), pixels.get(), out.rgb.size());
  return absl::OkStatus();
}

}  // namespace libreyolo::data
