// Every decoder of pictures, by content. Small limits keep an iteration short.
#include <cstdint>
#include <cstdlib>

#include "server/worker/data/image_decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using libreyolo::data::DecodeLimits;
  using libreyolo::data::Image;
  using libreyolo::data::ImageDecoder;
  DecodeLimits limits;
  limits.max_pixels = 1 << 20;
  static ImageDecoder* const decoder = new ImageDecoder(limits);  // as a loader keeps one
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  Image image;
  if (decoder->Decode(bytes, "input", image).ok()) {
    // A picture that decodes has a header that says its size, and all its pixels.
    const auto header = decoder->ReadSize(bytes, "input");
    if (!header.ok() || header->width != image.width || header->height != image.height ||
        image.rgb.size() != size_t{3} * image.width * image.height) {
      std::abort();
    }
  }
  return 0;
}
