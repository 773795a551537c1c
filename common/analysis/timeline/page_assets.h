// The page's skeleton, style and script, from page/: embedded at build time (CMakeLists.txt).
#pragma once

#include "absl/strings/string_view.h"

namespace libreyolo::analysis {

extern const absl::string_view kTimelineHtml;
extern const absl::string_view kTimelineStyle;
// The script's parts, one after another.
extern const absl::string_view kTimelineScript;

}  // namespace libreyolo::analysis
