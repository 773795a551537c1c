#include <turbojpeg.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/worker/data/image_codecs.h"

namespace libreyolo::data {
namespace {

struct JpegHeader {
  ImageSize size;
  bool is_cmyk = false;
};

const unsigned char* Bytes(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

absl::StatusOr<JpegHeader> ReadHeader(tjhandle handle, absl::string_view bytes) {
  JpegHeader header;
  int subsampling = 0;
  int colorspace = 0;
  const int failed =
      tjDecompressHeader3(handle, Bytes(bytes), static_cast<unsigned long>(bytes.size()),
                          &header.size.width, &header.size.height, &subsampling, &colorspace);
  if (failed != 0 && tjGetErrorCode(handle) == TJERR_FATAL) {
    return absl::InvalidArgumentError(tjGetErrorStr2(handle));
  }
  header.is_cmyk = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  return header;
}

// libjpeg pads a file that ends early with grey and only warns; such a picture is not the one that
// was meant. Other warnings (stray bytes between segments) leave the pixels intact.
absl::Status CheckWarning(tjhandle handle, absl::string_view bytes) {
  constexpr absl::string_view kEndOfImage("\xFF\xD9", 2);
  const absl::string_view message = tjGetErrorStr2(handle);
  if (tjGetErrorCode(handle) == TJERR_FATAL) return absl::InvalidArgumentError(message);
  // Only the first warning is kept, so that a second look is needed for the end.
  if (absl::StrContains(message, "Premature end of JPEG file") ||
      bytes.rfind(kEndOfImage) == absl::string_view::npos) {
    return absl::InvalidArgumentError("the file is truncated");
  }
  return absl::OkStatus();
}

absl::Status Decompress(tjhandle handle, absl::string_view bytes, const ImageSize& size,
                        int pixel_format, uint8_t* out) {
  // Limits the scans of a progressive file: each costs a pass over all its pixels.
  const int flags = TJFLAG_LIMITSCANS;
  const int failed = tjDecompress2(handle, Bytes(bytes), static_cast<unsigned long>(bytes.size()),
                                   out, size.width, 0, size.height, pixel_format, flags);
  return failed == 0 ? absl::OkStatus() : CheckWarning(handle, bytes);
}

// CMYK as programs write it into JPEG: inverted, 255 is no ink.
void InvertedCmykToRgb(const std::vector<uint8_t>& cmyk, Image& out) {
  const size_t count = cmyk.size() / 4;
  for (size_t i = 0; i < count; ++i) {
    const int key = cmyk[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = (255 - cmyk[4 * i + c]) * key + 128;
      const int value = key - ((ink + (ink >> 8)) >> 8);
      out.rgb[3 * i + c] = static_cast<uint8_t>(std::clamp(value, 0, 255));
    }
  }
}

}  // namespace

absl::StatusOr<ImageSize> ReadJpegSize(void* decompressor, absl::string_view bytes) {
  LY_ASSIGN_OR_RETURN(const JpegHeader header, ReadHeader(decompressor, bytes));
  return header.size;
}

absl::Status DecodeJpeg(void* decompressor, absl::string_view bytes, const DecodeLimits& limits,
                        Image& out) {
  LY_ASSIGN_OR_RETURN(const JpegHeader header, ReadHeader(decompressor, bytes));
  LY_RETURN_IF_ERROR(CheckSize(header.size, limits));
  out.Reset(header.size.width, header.size.height);
  if (!header.is_cmyk) {
    return Decompress(decompressor, bytes, header.size, TJPF_RGB, out.rgb.data());
  }
  std::vector<uint8_t> cmyk(out.rgb.size() / 3 * 4);
  LY_RETURN_IF_ERROR(Decompress(decompressor, bytes, header.size, TJPF_CMYK, cmyk.data()));
  InvertedCmykToRgb(cmyk, out);
  return absl::OkStatus();
}

}  // namespace libreyolo::data
