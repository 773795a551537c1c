// Records for the fake CUPTI, in a test's words, and the way to the library.
#pragma once

#include <cupti.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fakes/cupti/fake_cupti.h"

namespace libreyolo {

inline constexpr uint32_t kCudaLaunchKernel = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
inline constexpr uint32_t kCudaGraphLaunch = CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000;
inline constexpr uint32_t kCudaMemcpyAsync = CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020;
inline constexpr uint32_t kCudaMemsetAsync = CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020;
inline constexpr uint32_t kCudaMalloc = CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020;
inline constexpr uint32_t kCudaFree = CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020;
inline constexpr uint32_t kCudaGetDevice = CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020;
inline constexpr uint32_t kCuLaunchKernel = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
inline constexpr uint32_t kCuCtxGetCurrent = CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent;

// The fake at `path`, loaded into this process.
inline FakeCupti& LoadFakeCupti(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, "fakeCuptiInstance");
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return *reinterpret_cast<decltype(&fakeCuptiInstance)>(symbol)();
}

inline CUpti_ActivityKernel10 Kernel(const char* name, uint32_t correlation, uint64_t start,
                                     uint64_t end, uint32_t stream = 7) {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.name = name;
  kernel.correlationId = correlation;
  kernel.start = start;
  kernel.end = end;
  kernel.streamId = stream;
  kernel.contextId = 1;
  kernel.gridX = kernel.gridY = kernel.gridZ = 1;
  kernel.blockX = 128;
  kernel.blockY = kernel.blockZ = 1;
  return kernel;
}

inline CUpti_ActivityMemcpy6 Copy(CUpti_ActivityMemcpyKind direction, uint64_t bytes,
                                  uint32_t correlation, uint64_t start, uint64_t end) {
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = static_cast<uint8_t>(direction);
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.bytes = bytes;
  copy.correlationId = correlation;
  copy.start = start;
  copy.end = end;
  copy.contextId = 1;
  copy.streamId = 7;
  return copy;
}

}  // namespace libreyolo
