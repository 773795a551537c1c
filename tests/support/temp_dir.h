// A folder for one test, removed with it. In memory where that is possible: thousands of fsyncs
// cost nothing there, and what tests play is the end of a process, not of the power.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/check.h"
#include "common/base/file.h"

namespace libreyolo::testing {

class TempDir {
 public:
  TempDir() {
    const std::filesystem::path parent = access("/dev/shm", W_OK | X_OK) == 0
                                             ? std::filesystem::path("/dev/shm")
                                             : std::filesystem::temp_directory_path();
    std::string pattern = parent / "libreyolo-test-XXXXXX";
    LY_CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Makes the file and its folders.
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file(path_ + "/" + name);
    LY_CHECK(MakeDirectories(file.parent_path()).ok()) << file.string();
    LY_CHECK(WriteFile(file, text).ok()) << file.string();
  }

 private:
  std::string path_;
};

}  // namespace libreyolo::testing
