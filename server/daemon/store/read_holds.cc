#include "server/daemon/store/read_holds.h"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace libreyolo::daemon {
namespace {

std::string KeyOfJob(const std::string& job_id) { return absl::StrCat("job ", job_id); }

// By what it is, which a rename does not change, and by name, where a file system makes numbers up.
void AddKeys(const std::string& path, std::vector<std::string>& keys) {
  keys.push_back(absl::StrCat("path ", path));
  struct stat info;
  if (stat(path.c_str(), &info) == 0)
    keys.push_back(absl::StrCat("file ", info.st_dev, " ", info.st_ino));
}

}  // namespace

ReadHolds::Hold::Hold(Hold&& other) noexcept
    : holds_(std::exchange(other.holds_, nullptr)), keys_(std::move(other.keys_)) {}

ReadHolds::Hold& ReadHolds::Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    Release();
    holds_ = std::exchange(other.holds_, nullptr);
    keys_ = std::move(other.keys_);
  }
  return *this;
}

void ReadHolds::Hold::Release() {
  if (holds_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(holds_->mu_);
  for (const std::string& key : keys_) {
    State& state = holds_->held_[key];
    --state.count;
    state.released = holds_->clock_.Monotonic();
  }
  holds_ = nullptr;
}

ReadHolds::Hold ReadHolds::Take(std::vector<std::string> keys) {
  const std::lock_guard<std::mutex> lock(mu_);
  DropOld();
  for (const std::string& key : keys) ++held_[key].count;
  return Hold(this, std::move(keys));
}

ReadHolds::Hold ReadHolds::OfFile(const std::string& path) {
  std::vector<std::string> keys;
  AddKeys(path, keys);
  AddKeys(std::filesystem::path(path).parent_path(), keys);
  return Take(std::move(keys));
}

ReadHolds::Hold ReadHolds::OfJob(const std::string& job_id) { return Take({KeyOfJob(job_id)}); }

bool ReadHolds::RunIfFree(const std::string& job_id, const std::vector<std::string>& paths,
                          absl::FunctionRef<void()> body) {
  std::vector<std::string> keys = {KeyOfJob(job_id)};
  for (const std::string& path : paths) AddKeys(path, keys);
  const std::lock_guard<std::mutex> lock(mu_);
  const absl::Duration now = clock_.Monotonic();
  for (const std::string& key : keys) {
    const auto found = held_.find(key);
    if (found == held_.end()) continue;
    if (found->second.count > 0 || now - found->second.released < linger_) return false;
  }
  body();
  return true;
}

// Once in a while, so that what is kept is bounded by what is read in a few seconds.
void ReadHolds::DropOld() {
  const absl::Duration now = clock_.Monotonic();
  if (now < next_drop_) return;
  next_drop_ = now + linger_;
  for (auto it = held_.begin(); it != held_.end();) {
    const bool old = it->second.count == 0 && now - it->second.released >= linger_;
    it = old ? held_.erase(it) : std::next(it);
  }
}

}  // namespace libreyolo::daemon
