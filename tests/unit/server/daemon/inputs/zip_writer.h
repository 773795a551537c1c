// ZIP archives for tests.
#pragma once

#include <zip.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/file.h"

namespace libreyolo::testing {

// Names that end with a slash are folders.
inline void WriteZip(const std::string& path,
                     const std::vector<std::pair<std::string, std::string>>& files) {
  int code = 0;
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  LY_CHECK(archive != nullptr) << path;
  for (const auto& [name, text] : files) {
    if (name.back() == '/') {
      LY_CHECK(zip_dir_add(archive, name.c_str(), ZIP_FL_ENC_UTF_8) >= 0) << name;
      continue;
    }
    zip_source_t* const source = zip_source_buffer(archive, text.data(), text.size(), 0);
    LY_CHECK(zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8) >= 0) << name;
  }
  LY_CHECK(zip_close(archive) == 0) << path;
}

}  // namespace libreyolo::testing
