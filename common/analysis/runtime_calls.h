// What a call of the CUDA (or HIP) runtime or driver does, by its name. Pure.
#pragma once

#include "absl/strings/string_view.h"

namespace libreyolo::analysis {

enum class CallKind {
  kOther,
  kLaunch,       // starts one kernel
  kGraphLaunch,  // starts a graph of kernels
  kDeviceAlloc,  // reserves or returns DEVICE memory; pinned host memory does not count
  kSynchronize,  // waits for the device
};

CallKind KindOfCall(absl::string_view name);

}  // namespace libreyolo::analysis
