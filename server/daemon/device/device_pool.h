// Who may use which device now. A lease is exclusive on the whole host: flock files tell daemons
// and users of each other. A CPU job shares the host with no other measuring job, for each would
// disturb the other. Control thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

class DevicePool;

// Holds a device. The locks last until the lease and every copy of its descriptors (a worker and
// its children hold them) are gone: also when the daemon dies, nobody measures beside a worker that
// it left.
class DeviceLease {
 public:
  ~DeviceLease();
  DeviceLease(const DeviceLease&) = delete;
  DeviceLease& operator=(const DeviceLease&) = delete;
  const std::string& device() const { return device_; }
  // For the worker to inherit, all of them: the device's lock keeps others off the device, the
  // host's keeps a CPU job from measuring beside a GPU's and the other way round.
  std::vector<int> fds() const { return {host_lock_.get(), device_lock_.get()}; }

 private:
  friend class DevicePool;
  DeviceLease(DevicePool& pool, std::string device, UniqueFd host_lock, UniqueFd device_lock);

  DevicePool& pool_;
  const std::string device_;
  UniqueFd host_lock_;    // shared for GPUs, exclusive for the CPU
  UniqueFd device_lock_;  // exclusive
};

class DevicePool {
 public:
  // `lock_dir` is the system's lock folder, writable for every user of the host.
  explicit DevicePool(std::string lock_dir) : lock_dir_(std::move(lock_dir)) {}

  // The lease, or Unavailable whose message says what it waits for ("cpu is held by job X"). Other
  // codes are errors of the lock folder.
  absl::StatusOr<std::unique_ptr<DeviceLease>> TryAcquire(const std::string& device,
                                                          const std::string& job_id);

  // The job of this daemon that holds `device`; "another process" for a holder outside; empty when
  // it is free.
  std::string HolderOf(const std::string& device) const;

 private:
  friend class DeviceLease;
  std::string LockPath(const std::string& device) const;

  const std::string lock_dir_;
  std::map<std::string, std::string> held_;  // device -> job
};

}  // namespace libreyolo::daemon
