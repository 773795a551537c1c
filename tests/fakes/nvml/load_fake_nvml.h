// The fake NVML in a test's own process.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "tests/fakes/nvml/fake_nvml.h"

namespace libreyolo {

inline FakeNvml& LoadFakeNvml(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, "fakeNvmlInstance");
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return *reinterpret_cast<decltype(&fakeNvmlInstance)>(symbol)();
}

}  // namespace libreyolo
