// Decodes JPEG, PNG, WebP and BMP to 8-bit RGB, told apart by content and not by the file's name.
//
// The rules are those of the reference's reader, so that both measure the same pixels: grey is
// replicated, alpha is dropped without blending, 16-bit samples keep their high byte (there the
// reference clips grey ones to white, which we do not copy), an EXIF
// orientation is ignored. A truncated file is an error, never a half grey picture.
//
//   ImageDecoder decoder;
//   Image image;
//   LY_RETURN_IF_ERROR(decoder.DecodeFile(path, image));
//
// Every error has reason SOURCE_UNREADABLE (a missing file: SOURCE_NOT_FOUND) and names the file.
// TIFF, GIF and PFM are recognised and named as unsupported.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/worker/data/image.h"

namespace libreyolo::data {

enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp, kBmp, kTiff, kGif, kPfm };

// What the first bytes say; kUnknown for anything else.
ImageFormat SniffImageFormat(absl::string_view bytes);

// "JPEG", "PNG", ...; "unknown" for kUnknown.
const char* ImageFormatName(ImageFormat format);

// Checked against the header before memory for the pixels is taken.
struct DecodeLimits {
  int64_t max_file_bytes = int64_t{512} << 20;
  // Where the reference's reader calls a picture a decompression bomb.
  int64_t max_pixels = 178'956'970;
};

// Keeps the decoders' state and the file buffer, so that a steady stream of pictures of one size
// allocates little. One thread at a time; make one for each thread.
class ImageDecoder {
 public:
  explicit ImageDecoder(const DecodeLimits& limits = {});
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  // Decodes an encoded picture in memory. `name` stands for it in errors. On error `out` is
  // unspecified.
  absl::Status Decode(absl::string_view bytes, absl::string_view name, Image& out);

  // Reads and decodes a file.
  absl::Status DecodeFile(const std::string& path, Image& out);

  // The size in the header, without decoding the pixels; the pixels may still turn out broken.
  absl::StatusOr<ImageSize> ReadSize(absl::string_view bytes, absl::string_view name);
  absl::StatusOr<ImageSize> ReadFileSize(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same for a single picture.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes, absl::string_view name,
                                  const DecodeLimits& limits = {});
absl::StatusOr<Image> DecodeImageFile(const std::string& path, const DecodeLimits& limits = {});

}  // namespace libreyolo::data
