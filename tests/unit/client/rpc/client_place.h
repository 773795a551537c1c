// A scratch folder in which a client has its current folder, its sockets, its state and its PATH,
// and what is put back afterwards. One test at a time in a process: all of these belong to the
// process.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace libreyolo::client {

class ClientPlace {
 public:
  ClientPlace() : cwd_before_(std::filesystem::current_path()) {
    // Short, and not below TMPDIR: socket paths have a limit.
    char name[] = "/tmp/ly-XXXXXX";
    root_ = mkdtemp(name);
    for (const char* folder : {"work", "run", "state", "bin"}) {
      std::filesystem::create_directory(root_ / folder);
    }
    Set("XDG_RUNTIME_DIR", Path("run"));
    Set("XDG_STATE_HOME", Path("state"));
    Set("HOME", Path("home"));
    Set("TMPDIR", root_.string());
    Set("PATH", absl::StrCat(Path("bin"), ":/usr/bin:/bin"));
    Unset("LIBREYOLO_SERVER");
    std::filesystem::current_path(root_ / "work");
  }
  ~ClientPlace() {
    std::filesystem::current_path(cwd_before_);
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
    for (const auto& [name, value] : before_) {
      value.has_value() ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }

  std::string Path(const std::string& below) const { return (root_ / below).string(); }
  void Set(const std::string& name, const std::string& value) {
    Keep(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  void Unset(const std::string& name) {
    Keep(name);
    unsetenv(name.c_str());
  }
  // A program in PATH.
  void AddProgram(const std::string& name, const std::string& text) {
    const std::string path = Path("bin/" + name);
    ASSERT_TRUE(WriteFile(path, text).ok());
    ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  }
  void AddFile(const std::string& below, const std::string& text) {
    std::filesystem::create_directories((root_ / below).parent_path());
    ASSERT_TRUE(WriteFile(Path(below), text).ok());
  }

 private:
  void Keep(const std::string& name) {
    if (before_.count(name) > 0) return;
    const char* value = getenv(name.c_str());
    before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  std::filesystem::path cwd_before_;
  std::filesystem::path root_;
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace libreyolo::client
