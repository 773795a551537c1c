// Fault points inside SQLite: a virtual file system that asks before and after each fsync, for
// connections whose owner has a hook.
#pragma once

#include <memory>

#include "common/base/fault_points.h"

namespace libreyolo::daemon {

// Registered with SQLite while it lives; connections that were opened with name() end before it.
// Points: "fsync index" (the database), "fsync index wal" and "after ..." of both. An error is an
// I/O error of the fsync.
class SyncFaults {
 public:
  explicit SyncFaults(FaultHook at);
  ~SyncFaults();
  SyncFaults(const SyncFaults&) = delete;
  SyncFaults& operator=(const SyncFaults&) = delete;

  const char* name() const;

 private:
  struct Vfs;
  const std::unique_ptr<Vfs> vfs_;
};

}  // namespace libreyolo::daemon
