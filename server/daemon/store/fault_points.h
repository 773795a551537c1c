// What tests replace in the profile store: a named point before each step that reaches the disk, at
// which they end the process or return an error, and the rename call, with which they play file
// systems that know no flags.
#pragma once

#include <functional>

#include "common/base/fault_points.h"

namespace libreyolo::daemon {

struct StoreHooks {
  // Asked at points such as "fsync staging" or "exchange infer_0". An error at "rename flags" is a
  // file system that knows none.
  FaultHook at;
  // In place of renameat2(): 0 or an errno. `flags` as there.
  std::function<int(const char* from, const char* to, unsigned flags)> rename;
};

}  // namespace libreyolo::daemon
