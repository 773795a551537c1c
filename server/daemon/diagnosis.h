// What the daemon says when somebody asks what ails it: each thing that it needs, looked at now.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/daemon/config.h"
#include "server/daemon/device/device_inventory.h"

namespace libreyolo::daemon {

struct Finding {
  enum class Health { kOk, kWarning, kFailed };
  std::string check;  // "store", "worker"
  Health health = Health::kOk;
  std::string text;
  std::vector<std::string> hints;  // the ways out; none when it is ok
};

// Looks at store, disks, folders, files of TLS and users, worker, driver and CUPTI. Blocks for
// seconds: it starts the worker to ask for its build and for CUPTI, unless a job `is_measuring`,
// which it would disturb. Safe to call from any thread.
std::vector<Finding> Diagnose(const Config& config, const DeviceInventory& devices,
                              bool is_measuring, absl::Time now);

}  // namespace libreyolo::daemon
