// Paths that must stay below a folder, symlinks included. Asks the file system; any thread. What it
// finds may change afterwards: it keeps out mistakes and planted links, not the folder's own user.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace libreyolo {

enum class LinkRule {
  kStayInside,      // no symlink may lead out of the folder
  kOwnersMayLeave,  // those that this process's user or root made may lead anywhere
};

// The absolute path of the existing `relative` (normalised, see relative_path.h) below `root`.
//   NotFound          there is no such file, or a symlink leads nowhere
//   PATH_REFUSED      a symlink leads out of the folder, or is somebody else's
absl::StatusOr<std::string> ResolveConfined(const std::string& root, const std::string& relative,
                                            LinkRule rule);

}  // namespace libreyolo
