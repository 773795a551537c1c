#include "common/base/relative_path.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"

namespace libreyolo {
namespace {
constexpr size_t kMaxPathBytes = 4096;
}  // namespace

absl::StatusOr<std::string> NormalizeRelativePath(absl::string_view path) {
  const auto refuse = [&](const char* why) {
    return MakeError(reason::kPathRefused,
                     absl::StrCat("the path \"", std::string(path), "\" ", why));
  };
  if (path.size() > kMaxPathBytes) return refuse("is too long");
  for (char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      return refuse("holds a control character");
  }
  if (absl::StartsWith(path, "/")) return refuse("is absolute; name one inside the workspace");
  std::vector<absl::string_view> parts;
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse("leaves the workspace");
    if (part.size() > 255) return refuse("has a component that is too long");
    parts.push_back(part);
  }
  return absl::StrJoin(parts, "/");
}

}  // namespace libreyolo
