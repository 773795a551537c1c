// The decoders behind image_decode.h, one for each format. Private to this folder.
//
// All of them check the header against `limits` before they size `out`, treat missing data as an
// error and return a status whose message says what is wrong with the picture; the caller adds its
// name and the reason. `bytes` begin with the format's signature.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/worker/data/image.h"
#include "server/worker/data/image_decode.h"

namespace libreyolo::data {

absl::StatusOr<ImageSize> ReadJpegSize(void* decompressor, absl::string_view bytes);
absl::StatusOr<ImageSize> ReadPngSize(absl::string_view bytes);
absl::StatusOr<ImageSize> ReadWebpSize(absl::string_view bytes);
absl::StatusOr<ImageSize> ReadBmpSize(absl::string_view bytes);

// `decompressor` is a TurboJPEG handle.
absl::Status DecodeJpeg(void* decompressor, absl::string_view bytes, const DecodeLimits& limits,
                        Image& out);
absl::Status DecodePng(absl::string_view bytes, const DecodeLimits& limits, Image& out);
absl::Status DecodeWebp(absl::string_view bytes, const DecodeLimits& limits, Image& out);
absl::Status DecodeBmp(absl::string_view bytes, const DecodeLimits& limits, Image& out);

// OK when a picture of this size may be decoded.
absl::Status CheckSize(const ImageSize& size, const DecodeLimits& limits);

}  // namespace libreyolo::data
