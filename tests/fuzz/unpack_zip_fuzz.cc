// A dataset's archive, as a hostile hub may send it. Whatever it holds, nothing appears outside the
// folder, and no more than the limits allow.
#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "server/daemon/inputs/unpack_zip.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFiles = 50;
constexpr int64_t kMaxBytes = 256 << 10;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > (1 << 20)) return 0;
  static const libreyolo::testing::TempDir* const folder = new libreyolo::testing::TempDir();
  const fs::path archive = *folder / "a.zip";
  const fs::path target = *folder / "inner/target";
  LY_CHECK(libreyolo::WriteFile(archive.string(),
                                absl::string_view(reinterpret_cast<const char*>(data), size))
               .ok());
  libreyolo::daemon::UnpackLimits limits;
  limits.max_files = kMaxFiles;
  limits.max_bytes = kMaxBytes;
  const std::atomic<bool> cancelled{false};
  (void)libreyolo::daemon::UnpackZip(archive.string(), target.string(), limits, cancelled, nullptr);
  uint64_t bytes = 0;
  int64_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder->path())) {
    LY_CHECK(!entry.is_symlink()) << entry.path().string() << " is a link";
    if (entry.is_directory() || entry.path() == archive) continue;
    const auto relative = entry.path().lexically_relative(target);
    LY_CHECK(!relative.empty() && *relative.begin() != "..")
        << entry.path().string() << " is outside of the folder";
    bytes += entry.file_size();
    ++files;
  }
  // A chunk may be written before its size is looked at.
  LY_CHECK(bytes <= kMaxBytes + (256 << 10) && files <= kMaxFiles) << "the limits do not hold";
  fs::remove_all(*folder / "inner");
  return 0;
}
