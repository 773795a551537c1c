// CUPTI by dlopen: the worker has no link-time dependency on it, and a test hands in a library of
// its own. The types are those of CUPTI's headers.
//
// For server/worker/capture alone.
#pragma once

#include <cupti.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace libreyolo::worker {

// Every function that is called. `X(name)` for each.
#define LY_CUPTI_FUNCTIONS(X)               \
  X(cuptiGetVersion)                        \
  X(cuptiGetResultString)                   \
  X(cuptiSubscribe)                         \
  X(cuptiUnsubscribe)                       \
  X(cuptiSetThreadIdType)                   \
  X(cuptiGetCallbackName)                   \
  X(cuptiActivityRegisterTimestampCallback) \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityPopExternalCorrelationId)

struct CuptiTable {
#define LY_CUPTI_MEMBER(f) decltype(&::f) f = nullptr;
  LY_CUPTI_FUNCTIONS(LY_CUPTI_MEMBER)
#undef LY_CUPTI_MEMBER
};

struct CuptiLibrary {
  CuptiTable api;
  std::string path;      // where it was found
  uint32_t version = 0;  // of its API: 130001 is CUDA 13.0
};

// Where to look, in order. A name without a folder is left to the loader, which knows the library
// that LibTorch brought along.
//   1. LIBREYOLO_CUPTI, which then is the only place
//   2. the one that this process has loaded already
//   3. nvidia/*/lib beside LibTorch's libraries, as Python wheels have it
//   4. the toolkit: $CUDA_HOME, $CUDA_PATH, then /usr/local/cuda
//   5. the system's library path
// `env` gives an environment variable or ""; `torch_lib_dir` is the folder of LibTorch's libraries,
// "" when unknown.
std::vector<std::string> CuptiCandidates(const std::function<std::string(const std::string&)>& env,
                                         const std::string& torch_lib_dir);

// The first candidate that loads. It stays loaded until the process ends: CUPTI cannot be taken
// out of a process that used it.
//   CAPTURE_UNAVAILABLE  none loads, or it is older than CUDA 12 or lacks a function; says which
//                        places were tried
absl::StatusOr<CuptiLibrary> LoadCupti(const std::vector<std::string>& candidates);

// LoadCupti for this process: its environment and its LibTorch.
absl::StatusOr<CuptiLibrary> FindCupti();

// "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)".
std::string CuptiResultText(const CuptiTable& api, CUptiResult result);

// The job's error for a call of `what` that failed: which of the ways out fit depends on the code.
//   CAPTURE_FORBIDDEN    the driver keeps tracing for administrators
//   CAPTURE_BUSY         another profiler holds CUPTI
//   CAPTURE_UNAVAILABLE  anything else
absl::Status CuptiFailure(const CuptiTable& api, const char* what, CUptiResult result);

}  // namespace libreyolo::worker
