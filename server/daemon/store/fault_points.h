// What tests replace in the profile store: a named point before each step that reaches the disk, at
// which they end the process or return an error, and the rename call, with which they play file
// systems that know no flags.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace libreyolo::daemon {

struct StoreHooks {
  // Called with a point's name, such as "fsync staging" or "exchange infer_0". An error fails that
  // step.
  std::function<absl::Status(const std::string& point)> at;
  // In place of renameat2(): 0 or an errno. `flags` as there.
  std::function<int(const char* from, const char* to, unsigned flags)> rename;
};

}  // namespace libreyolo::daemon
