// How the C allocator treats the large blocks that hold tensors on the CPU.
#pragma once

namespace libreyolo::worker {

// Keeps freed memory in the process. By default glibc maps each large tensor anew and gives it back
// when it is freed, so that every layer of every step pays for page faults: 25 MB of fresh pages in
// a pass of the smallest model at 640 x 640, about a tenth of its time, which says nothing about
// the model. Call once in main, before other threads exist. Costs resident memory up to the peak of
// live tensors.
void KeepFreedHostMemory();

}  // namespace libreyolo::worker
