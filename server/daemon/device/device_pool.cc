#include "server/daemon/device/device_pool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

constexpr char kHost[] = "host";

absl::StatusOr<UniqueFd> OpenLock(const std::string& path) {
  // Every user of the host must be able to lock it, whoever made it. The folder is sticky and may
  // forbid O_CREAT on another user's file (fs.protected_regular), so an existing one is opened
  // without it.
  // What another user put there must not hold up who opens it: a pipe would.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  UniqueFd fd(open(path.c_str(), kFlags));
  if (!fd && errno == ENOENT) {
    fd.Reset(open(path.c_str(), kFlags | O_CREAT, 0644));
    // Whatever the umask is. That of another user who was faster is another user's to set.
    if (fd) (void)fchmod(fd.get(), 0644);
  }
  if (!fd) return ErrnoStatus(errno, "open lock file", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "look at lock file", path);
  if (!S_ISREG(info.st_mode)) {
    return MakeError(reason::kStoreFailed, absl::StrCat("the lock file ", path, " is no file"),
                     {"remove it, or name another folder with --lock-dir"});
  }
  return fd;
}

absl::Status Busy(const std::string& device) {
  return absl::UnavailableError(
      absl::StrCat("device ", device, " is held by another process on this host"));
}

}  // namespace

DeviceLease::DeviceLease(DevicePool& pool, std::string device, UniqueFd host_lock,
                         UniqueFd device_lock)
    : pool_(pool),
      device_(std::move(device)),
      host_lock_(std::move(host_lock)),
      device_lock_(std::move(device_lock)) {}

DeviceLease::~DeviceLease() { pool_.held_.erase(device_); }

std::string DevicePool::LockPath(const std::string& device) const {
  return absl::StrCat(lock_dir_, "/libreyolo-", absl::StrReplaceAll(device, {{":", "-"}}), ".lock");
}

absl::StatusOr<std::unique_ptr<DeviceLease>> DevicePool::TryAcquire(const std::string& device,
                                                                    const std::string& job_id) {
  const bool cpu = device == "cpu";
  for (const auto& [held, holder] : held_) {
    if (held == device || cpu || held == "cpu") {
      return absl::UnavailableError(absl::StrCat("device ", held, " is held by job ", holder));
    }
  }
  LY_ASSIGN_OR_RETURN(UniqueFd host_lock, OpenLock(LockPath(kHost)));
  LY_ASSIGN_OR_RETURN(UniqueFd device_lock, OpenLock(LockPath(device)));
  if (flock(host_lock.get(), (cpu ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    return cpu ? absl::UnavailableError("another process on this host measures") : Busy("cpu");
  }
  if (flock(device_lock.get(), LOCK_EX | LOCK_NB) != 0) return Busy(device);
  held_[device] = job_id;
  return std::unique_ptr<DeviceLease>(
      new DeviceLease(*this, device, std::move(host_lock), std::move(device_lock)));
}

std::string DevicePool::HolderOf(const std::string& device) const {
  const auto it = held_.find(device);
  if (it != held_.end()) return it->second;
  const auto lock = OpenLock(LockPath(device));
  if (lock.ok() && flock(lock->get(), LOCK_SH | LOCK_NB) != 0) return "another process";
  return {};
}

}  // namespace libreyolo::daemon
