// How the C allocator treats the large blocks that hold tensors on the CPU.
#pragma once

namespace libreyolo::worker {

// Keeps freed memory in the process, so that the next step's tensors do not fault their pages in again: a pass of the
// smallest model at 640 x 640 otherwise takes 25 MB of fresh pages. Blocks above 32 MiB still come from and return to the
// system. Call once in main, before other threads exist. Costs resident memory up to the peak of live tensors.
void KeepFreedHostMemory();

}  // namespace libreyolo::worker
