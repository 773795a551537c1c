#include "server/worker/data/dataset_images.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxListBytes = int64_t{1} << 30;

enum class Kind { kOther, kSupported, kUnsupported };

// Unlike `infer`'s folders, datasets know a suffix in all lower or all upper case only.
Kind KindOf(const fs::path& path) {
  const std::string written = path.extension().string();
  const std::string suffix = absl::AsciiStrToLower(written);
  if (written != suffix && written != absl::AsciiStrToUpper(written)) return Kind::kOther;
  for (const char* supported : {".jpg", ".jpeg", ".png", ".bmp", ".webp"}) {
    if (suffix == supported) return Kind::kSupported;
  }
  for (const char* unsupported : {".gif", ".tif", ".tiff", ".pfm"}) {
    if (suffix == unsupported) return Kind::kUnsupported;
  }
  return Kind::kOther;
}

void Add(const fs::path& path, std::vector<std::string>& paths, int& unsupported_count) {
  switch (KindOf(path)) {
    case Kind::kSupported:
      paths.push_back(path.lexically_normal().string());
      break;
    case Kind::kUnsupported:
      ++unsupported_count;
      break;
    case Kind::kOther:
      break;
  }
}

absl::Status Unreadable(const fs::path& path, absl::string_view what) {
  return MakeError(reason::kDatasetInvalid,
                   absl::StrCat("cannot read ", path.string(), ": ", what));
}

absl::Status AddFolder(const fs::path& folder, const Fence& fence, ImageFiles& files) {
  std::vector<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code entry_error;
    if (!entry->is_regular_file(entry_error)) continue;
    LY_RETURN_IF_ERROR(fence.Check(entry->path().string()));
    Add(entry->path(), found, files.unsupported_count);
  }
  if (error) return Unreadable(folder, error.message());
  std::sort(found.begin(), found.end());
  files.paths.insert(files.paths.end(), found.begin(), found.end());
  return absl::OkStatus();
}

absl::Status AddList(const fs::path& list, const Fence& fence, ImageFiles& files) {
  const absl::StatusOr<std::string> text = ReadFile(list.string(), kMaxListBytes);
  if (!text.ok()) return Unreadable(list, text.status().message());
  std::vector<std::string> found;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const fs::path path = list.parent_path() / std::string(line);
    LY_RETURN_IF_ERROR(fence.Check(path.lexically_normal().string(), std::string(line)));
    Add(path, found, files.unsupported_count);
  }
  std::sort(found.begin(), found.end());
  files.paths.insert(files.paths.end(), found.begin(), found.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageFiles> FindImages(const std::string& root,
                                      const std::vector<std::string>& entries, const Fence& fence) {
  ImageFiles files;
  std::error_code error;
  const fs::path base = fs::absolute(root, error);
  for (const std::string& entry : entries) {
    const fs::path path = (base / entry).lexically_normal();
    LY_RETURN_IF_ERROR(fence.Check(path.string(), entry));
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      return MakeError(reason::kDatasetInvalid,
                       absl::StrCat("no such file or folder: ", path.string()));
    }
    if (fs::is_directory(status)) {
      LY_RETURN_IF_ERROR(AddFolder(path, fence, files));
    } else if (absl::AsciiStrToLower(path.extension().string()) == ".txt") {
      LY_RETURN_IF_ERROR(AddList(path, fence, files));
    } else {
      Add(path, files.paths, files.unsupported_count);
    }
  }
  return files;
}

std::string LabelPathOf(const std::string& image_path) {
  fs::path label;
  for (const fs::path& part : fs::path(image_path).parent_path()) {
    label /= part == "images" ? fs::path("labels") : part;
  }
  label /= fs::path(image_path).filename();
  return label.replace_extension(".txt").string();
}

}  // namespace libreyolo::data
