#include <cstddef>

#include "server/worker/data/image_source.h"

// The assembler puts the file into the read-only data; LY_SAMPLE_IMAGE is its path, from CMake.
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    "ly_sample_image_begin:\n"
    ".incbin \"" LY_SAMPLE_IMAGE
    "\"\n"
    "ly_sample_image_end:\n"
    ".popsection\n");

// Hidden: both ends lie in this object, so that the code needs no relocation to find them.
extern "C" __attribute__((visibility("hidden"))) const char ly_sample_image_begin[];
extern "C" __attribute__((visibility("hidden"))) const char ly_sample_image_end[];

namespace libreyolo::data {

absl::string_view SampleImageJpeg() {
  return {ly_sample_image_begin, static_cast<size_t>(ly_sample_image_end - ly_sample_image_begin)};
}

}  // namespace libreyolo::data
