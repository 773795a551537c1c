#include <webp/decode.h>

#include "common/base/status_macros.h"
#include "server/worker/data/image_codecs.h"

namespace libreyolo::data {
namespace {

const uint8_t* Bytes(absl::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

absl::StatusOr<WebPBitstreamFeatures> ReadFeatures(absl::string_view bytes) {
  WebPBitstreamFeatures features;
  switch (WebPGetFeatures(Bytes(bytes), bytes.size(), &features)) {
    case VP8_STATUS_OK:
      return features;
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return absl::InvalidArgumentError("the file is truncated");
    default:
      return absl::InvalidArgumentError("broken WebP header");
  }
}

}  // namespace

absl::StatusOr<ImageSize> ReadWebpSize(absl::string_view bytes) {
  LY_ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, ReadFeatures(bytes));
  return ImageSize{features.width, features.height};
}

absl::Status DecodeWebp(absl::string_view bytes, const DecodeLimits& limits, Image& out) {
  LY_ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, ReadFeatures(bytes));
  LY_RETURN_IF_ERROR(CheckSize({features.width, features.height}, limits));
  if (features.has_animation != 0) {
    return absl::InvalidArgumentError("animated WebP is not supported");
  }
  out.Reset(features.width, features.height);
  if (WebPDecodeRGBInto(Bytes(bytes), bytes.size(), out.rgb.data(), out.rgb.size(),
                        features.width * 3) == nullptr) {
    return absl::InvalidArgumentError("WebP data is truncated or corrupt");
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::data
