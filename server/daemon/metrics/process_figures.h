// What this process takes of its host, as far as the kernel and the allocator tell.
#pragma once

#include <cstdint>

namespace libreyolo::daemon {

struct ProcessFigures {
  int64_t resident_bytes = 0;
  int64_t heap_bytes = 0;  // allocated and not freed; what the allocator keeps for later is not in
  int64_t open_files = 0;
  int64_t threads = 0;
  double cpu_seconds = 0;         // user and system
  double start_unix_seconds = 0;  // wall clock
};

// Fields that cannot be read are 0. Any thread.
ProcessFigures ReadProcessFigures();

}  // namespace libreyolo::daemon
