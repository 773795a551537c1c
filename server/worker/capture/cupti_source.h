// The activity source of a CUDA job: CUPTI's activity records of this process.
//
//   LY_ASSIGN_OR_RETURN(auto source, MakeCuptiSource());
//   LY_RETURN_IF_ERROR(source->Start(sink));   // may come before or after CUDA is initialised
//   ... launch work, then synchronise the device ...
//   LY_ASSIGN_OR_RETURN(const CaptureLoss loss, source->Stop());
//
// CUPTI serves one client a process, so at most one source may run. It is never finalised: what it
// changed in the process ends with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/worker/capture/activity_source.h"

namespace libreyolo::worker {

struct CuptiLibrary;

struct CuptiOptions {
  // A buffer holds some 14,000 kernels with their calls, so at 100,000 kernels a second CUPTI asks
  // for seven a second. All together hold about nine seconds of such records before any is lost,
  // even if nothing at all could be read meanwhile.
  int64_t buffer_bytes = 4 << 20;
  int max_buffers = 64;
  // Allocated and touched in Start(), so that taking them causes no page faults in the window.
  int ready_buffers = 4;
  // One record for a whole CUDA graph in place of one for each of its nodes: costs less, shows
  // less.
  bool whole_graphs = false;
};

// CUPTI as it is found for this process (cupti_library.h).
//   CAPTURE_UNAVAILABLE  there is none that can be used
// The source's Start() adds
//   CAPTURE_FORBIDDEN, CAPTURE_BUSY, CAPTURE_UNAVAILABLE  as CuptiFailure() says
absl::StatusOr<std::unique_ptr<ActivitySource>> MakeCuptiSource(const CuptiOptions& options = {});

// What a worker asks for: CUPTI for a trace of a CUDA device, and for anything else a source that
// has nothing to see. After the device's libraries are loaded, so that CUPTI is the one they use.
absl::StatusOr<std::unique_ptr<ActivitySource>> MakeActivitySource(const std::string& device,
                                                                   bool trace);

// For people: which CUPTI would be used, after it has been switched on and off once without any
// work to record. The errors of MakeCuptiSource() and Start().
absl::StatusOr<std::string> DescribeCapture();

// On a library that the caller loaded.
std::unique_ptr<ActivitySource> MakeCuptiSource(CuptiLibrary library,
                                                const CuptiOptions& options = {});

}  // namespace libreyolo::worker
