#include "server/worker/host_memory.h"

#include <malloc.h>

#include <climits>

namespace libreyolo::worker {

void KeepFreedHostMemory() {
  // 32 MiB is the most that glibc takes for the first.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

}  // namespace libreyolo::worker
