#include "server/worker/host_memory.h"

#include <malloc.h>

namespace libreyolo::worker {

void KeepFreedHostMemory() {
  mallopt(M_MMAP_MAX, 0);         // large blocks come from the heap too
  mallopt(M_TRIM_THRESHOLD, -1);  // and the heap never shrinks
  mallopt(M_TOP_PAD, 64 << 20);   // it grows in few steps
}

}  // namespace libreyolo::worker
