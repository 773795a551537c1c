#include "server/worker/data/image_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::data {
namespace {

enum class SuffixKind { kOther, kSupported, kUnsupported };

SuffixKind KindOfSuffix(const std::filesystem::path& path) {
  const std::string suffix = absl::AsciiStrToLower(path.extension().string());
  for (const char* supported : {".jpg", ".jpeg", ".png", ".bmp", ".webp"}) {
    if (suffix == supported) return SuffixKind::kSupported;
  }
  for (const char* unsupported : {".gif", ".tif", ".tiff", ".pfm"}) {
    if (suffix == unsupported) return SuffixKind::kUnsupported;
  }
  return SuffixKind::kOther;
}

absl::Status NothingAt(const std::string& path, int unsupported_count) {
  if (unsupported_count == 0) {
    return MakeError(reason::kSourceNotFound, absl::StrCat("no images found at: ", path),
                     {"name an image (JPEG, PNG, WebP, BMP) or a folder with images in it"});
  }
  return MakeError(reason::kSourceNotFound,
                   absl::StrCat("no images found at: ", path, " (", unsupported_count,
                                " in an unsupported format: GIF, TIFF or PFM)"),
                   {"convert them to JPEG, PNG, WebP or BMP"},
                   {{"unsupported_count", absl::StrCat(unsupported_count)}});
}

}  // namespace

absl::StatusOr<ImageList> ListImages(const std::string& path, const Fence& fence) {
  LY_RETURN_IF_ERROR(fence.Check(path));
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return NothingAt(path, 0);
  if (!std::filesystem::is_directory(status)) return ImageList{{path}, 0};

  ImageList list;
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const SuffixKind kind = KindOfSuffix(entry->path());
    std::error_code entry_error;
    if (kind == SuffixKind::kOther || !entry->is_regular_file(entry_error)) continue;
    if (kind == SuffixKind::kUnsupported) {
      ++list.unsupported_count;
    } else {
      LY_RETURN_IF_ERROR(fence.Check(entry->path().string()));
      list.paths.push_back(entry->path().string());
    }
  }
  if (error) {
    return MakeError(reason::kSourceUnreadable,
                     absl::StrCat("cannot read folder ", path, ": ", error.message()));
  }
  if (list.paths.empty()) return NothingAt(path, list.unsupported_count);
  std::sort(list.paths.begin(), list.paths.end());
  return list;
}

}  // namespace libreyolo::data
