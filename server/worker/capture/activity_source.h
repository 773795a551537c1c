// The seam between a capture and whatever sees the GPU's work: what we need, not what a vendor
// offers. A CPU job has null_source; tests have a fake.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace libreyolo::worker {

enum class ActivityKind {
  kKernel,
  kMemcpy,
  kMemset,
  kRuntimeCall,  // a call of the runtime or driver API on a host thread
};

struct ActivityRecord {
  ActivityKind kind = ActivityKind::kKernel;
  std::string name;
  int64_t start_ns = 0;  // CLOCK_MONOTONIC, the clock of host records too
  int64_t end_ns = 0;
  uint32_t correlation_id = 0;     // ties a call to the GPU work that it started; 0: none
  int64_t device = 0;              // GPU work
  int64_t stream = 0;              // GPU work
  int64_t os_thread_id = 0;        // calls
  int64_t bytes = 0;               // copies and memsets
  std::array<int64_t, 3> grid{};   // kernels
  std::array<int64_t, 3> block{};  // kernels
};

// What a capture could not see.
struct CaptureLoss {
  int64_t record_count = 0;
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void OnActivity(ActivityRecord record) = 0;
};

class ActivitySource {
 public:
  virtual ~ActivitySource() = default;
  // `sink` is called on the source's own thread, one call at a time, until Stop() returns, and
  // never after.
  virtual absl::Status Start(RecordSink& sink) = 0;
  // Waits until the records of all work launched so far are delivered.
  virtual absl::StatusOr<CaptureLoss> Stop() = 0;
};

}  // namespace libreyolo::worker
