// What `infer` measures on: a picture, the pictures of a folder, or the sample in this library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/worker/data/fence.h"

namespace libreyolo::data {

struct ImageList {
  std::vector<std::string> paths;  // at least one
  // Pictures of a kind that is recognised and not decoded (GIF, TIFF, PFM), by suffix.
  int unsupported_count = 0;
};

// A file is taken as it is, whatever its name. Of a folder: its direct children whose suffix is
// that of a supported picture in any case, sorted by path, not those of its subfolders.
//   SOURCE_NOT_FOUND  nothing there, or no such child: "no images found at: PATH"
//   PATH_REFUSED      it, or a link among them, leads over the fence
absl::StatusOr<ImageList> ListImages(const std::string& path, const Fence& fence = Fence());

// The bundled sample: a JPEG of 640 x 480, part of the library (scripts/draw_sample_image.py drew
// it). Valid for the life of the process.
absl::string_view SampleImageJpeg();

// How errors and profiles name it.
inline constexpr char kSampleImageName[] = "bundled sample image";

}  // namespace libreyolo::data
