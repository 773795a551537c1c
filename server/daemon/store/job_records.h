// Keeps what the ended jobs of each principal take in the store within a limit: rows and events in
// the index, and logs. The oldest go. Results stay, with their pins and their place in retention's
// order. Thread-safe; blocks on files.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/layout.h"

namespace libreyolo::daemon {

class JobRecords {
 public:
  // `max_bytes` of each principal; 0: any.
  JobRecords(Index& index, const Layout& layout, int64_t max_bytes)
      : index_(index), layout_(layout), max_bytes_(max_bytes) {}

  // A job of `principal` has ended. Its record stays, and the newest one's. What cannot be removed
  // now is logged and tried again at the next end or start.
  void OnEnded(const std::string& principal, const std::string& id);
  // Once after each start, when jobs may run already: logs that no job has, which a daemon left
  // that was killed between row and log, and everybody's records, as the limit may be another one
  // now.
  void Sweep();

 private:
  absl::Status CountAll();
  absl::Status Limit(const std::string& principal, const std::set<std::string>& keep);
  absl::Status SweepLogs();
  absl::Status LimitAll();

  Index& index_;
  const Layout& layout_;
  const int64_t max_bytes_;
};

}  // namespace libreyolo::daemon
