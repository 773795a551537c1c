// Paths that must stay below a folder: checked as text, before any file system is asked. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo {

// A path below a workspace, normalised: no empty, "." or ".." components, not absolute, no NUL or
// control characters. PATH_REFUSED otherwise. "" and "." give "".
absl::StatusOr<std::string> NormalizeRelativePath(absl::string_view path);

}  // namespace libreyolo
