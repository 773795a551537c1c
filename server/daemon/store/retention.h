// Removes old results where an operator set limits: by age, by count, by bytes, each for one
// workspace. Never the newest result of a workspace, a pinned one, one that somebody is at work
// with (ReadHolds), one whose job still runs, or one that no job of this store made. A repeat is
// one result: it goes with all of its trials or not at all. Thread-safe; blocks on files.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/layout.h"
#include "server/daemon/store/profile_store.h"
#include "server/daemon/store/read_holds.h"
#include "server/daemon/store/retention_limits.h"
#include "server/daemon/store/steady_wall.h"

namespace libreyolo::daemon {

// What one job left in a workspace.
struct StoredResult {
  std::string job;
  std::string project;
  std::vector<std::string> profiles;  // paths in the workspace, the repeat file last
  absl::Time time;                    // of the newest of its profiles
  int64_t size_bytes = 0;
  int64_t commit_order = 0;  // as Index::Result
  bool pinned = false;
};

// The results that `listed` belong to, oldest first. The order of commits goes before the times of
// files, which follow the wall clock.
std::vector<StoredResult> GroupResults(const std::vector<Index::Listed>& listed,
                                       const std::vector<Index::Result>& known);

class Retention {
 public:
  struct Deps {
    Index& index;
    ProfileStore& profiles;
    const Layout& layout;
    ReadHolds& holds;
    const Clock& clock;
  };
  // What has been removed since the start.
  struct Counts {
    int64_t by_age = 0;
    int64_t by_count = 0;
    int64_t by_bytes = 0;
    int64_t bytes = 0;
    int64_t failed = 0;  // attempts
    int64_t results() const { return by_age + by_count + by_bytes; }
  };

  Retention(Deps deps, RetentionLimits limits) : deps_(deps), limits_(limits), wall_(deps.clock) {}

  const RetentionLimits& limits() const { return limits_; }
  // How often RunAll() should be called.
  absl::Duration Interval() const;
  // Brings one workspace within its limits, as far as the rules allow. What cannot be removed now
  // is logged and tried again the next time.
  void Run(const std::string& workspace);
  void RunAll();
  Counts counts() const;

 private:
  enum class Why { kAge, kCount, kBytes };
  static const char* NameOf(Why why);

  absl::Status RunLocked(const std::string& workspace);
  // A job of this store made it.
  bool IsOurs(const StoredResult& result);
  void TryRemove(const std::string& workspace, const StoredResult& result, Why why);
  absl::Status Remove(const std::string& workspace, const StoredResult& result, Why why);
  void Count(const StoredResult& result, Why why);

  const Deps deps_;
  const RetentionLimits limits_;
  std::mutex mu_;  // one pass at a time
  SteadyWall wall_;
  mutable std::mutex counts_mu_;
  Counts counts_;
};

}  // namespace libreyolo::daemon
