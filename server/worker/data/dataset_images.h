// Finds a split's pictures, and the label file of a picture, by the reference's rules.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/data/fence.h"

namespace libreyolo::data {

struct ImageFiles {
  std::vector<std::string> paths;  // absolute; those of a list file need not exist
  int unsupported_count = 0;       // GIF, TIFF and PFM, by suffix: left out of `paths`
};

// `entries` are a split's values, relative to `root`: folders (searched with their subfolders,
// sorted by path), list files (.txt: one path a line, relative to the list's folder, sorted,
// duplicates kept), pictures. Entries keep their order.
//   DATASET_INVALID  an entry that does not exist or cannot be read
//   PATH_REFUSED     an entry, a line of a list or a link leads over the fence
absl::StatusOr<ImageFiles> FindImages(const std::string& root,
                                      const std::vector<std::string>& entries,
                                      const Fence& fence = Fence());

// Every path component `images` replaced by `labels` and the suffix by .txt; without such a
// component the label file lies beside the picture.
std::string LabelPathOf(const std::string& image_path);

}  // namespace libreyolo::data
