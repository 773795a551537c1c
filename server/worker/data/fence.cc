#include "server/worker/data/fence.h"

#include <sys/stat.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <unordered_set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::data {
namespace {

bool IsBelow(const std::string& path, const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    if (path == root || absl::StartsWith(path, root == "/" ? root : root + "/")) return true;
  }
  return false;
}

// Without links; empty when there is nothing.
std::string RealPath(const std::string& path) {
  char real[PATH_MAX];
  return realpath(path.c_str(), real) == nullptr ? "" : real;
}

}  // namespace

struct Fence::Roots {
  std::vector<std::string> named;  // and what they are called without links
  std::vector<std::string> real;
  std::mutex mu;
  std::unordered_set<std::string> good_folders;  // lie inside, links followed
};

Fence::Fence(const std::vector<std::string>& roots) {
  if (!roots.empty()) roots_ = std::make_shared<Roots>();
  for (const std::string& root : roots) {
    std::error_code error;
    std::string named = std::filesystem::absolute(root, error).lexically_normal().string();
    if (named.size() > 1 && named.back() == '/') named.pop_back();
    roots_->named.push_back(named);
    if (std::string real = RealPath(named); !real.empty()) {
      roots_->named.push_back(real);
      roots_->real.push_back(std::move(real));
    }
  }
}

absl::Status Fence::Check(const std::string& path, const std::string& shown) const {
  if (roots_ == nullptr) return absl::OkStatus();
  const auto refuse = [&] {
    return MakeError(reason::kPathRefused,
                     absl::StrCat("the dataset names \"", shown,
                                  "\", which is not below its own folder or workspace"),
                     {"put all files of the dataset into one folder and name them from there",
                      "a dataset that the server's admin put into a datasets folder may lie "
                      "anywhere"});
  };
  // What is opened would end at the NUL.
  if (path.find('\0') != std::string::npos) return refuse();
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  // First by the words alone, lest the answer tell what exists elsewhere.
  if (!IsBelow(normal.string(), roots_->named)) return refuse();
  const std::string folder = normal.parent_path().string();
  bool is_good_folder = false;
  {
    const std::lock_guard<std::mutex> lock(roots_->mu);
    is_good_folder = roots_->good_folders.count(folder) > 0;
  }
  struct stat info;
  if (is_good_folder && (lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode))) {
    return absl::OkStatus();
  }
  const std::string real = RealPath(path);
  if (!real.empty() && !IsBelow(real, roots_->real)) return refuse();
  const std::string real_folder = RealPath(folder);
  if (!real_folder.empty() && IsBelow(real_folder, roots_->real)) {
    const std::lock_guard<std::mutex> lock(roots_->mu);
    roots_->good_folders.insert(folder);
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::data
