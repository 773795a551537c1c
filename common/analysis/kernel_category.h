// What a kernel's name tells: a category, whether it runs on Tensor Cores, and a short name for
// people. The rules are tables in the source file; the first that fits wins. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace libreyolo::analysis {

struct KernelClass {
  // "gemm / conv", "reduction / norm", "elementwise", "layout / copy", "attention",
  // "optimizer / foreach", "communication", "other"
  std::string category;
  bool tensorcore = false;
  std::string label;
};

KernelClass ClassifyKernel(absl::string_view name);

// Every category that there is.
std::vector<std::string> KernelCategories();

}  // namespace libreyolo::analysis
