// The seam between a capture and whatever sees the GPU's work: what we need, not what a vendor
// offers. A CPU job has null_source, a CUDA job cupti_source; tests have a fake.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace libreyolo::worker {

enum class ActivityKind : uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kRuntimeCall,      // a call of the runtime API on a host thread
  kDriverCall,       // a call of the driver API on a host thread
  kSynchronization,  // a wait for a stream, an event or a context
  kOverhead,         // time that the driver or the tracer itself took
};

struct ActivityRecord {
  ActivityKind kind = ActivityKind::kKernel;
  // Lives until the source is destroyed or started again.
  std::string_view name;
  int64_t start_ns = 0;  // CLOCK_MONOTONIC, the clock of host records too
  int64_t end_ns = 0;    // GPU work: both 0 when its time was not collected
  // Ties a call to the GPU work that it started; 0: none. The process counts them up and begins
  // again after 2^32, so two calls far apart may share one.
  uint32_t correlation_id = 0;
  uint32_t phase_id = 0;           // calls: what PushPhase() was given on their thread; 0: none
  int32_t device = 0;              // GPU work
  int32_t context = 0;             // GPU work
  int32_t stream = 0;              // GPU work
  int64_t os_thread_id = 0;        // calls
  int64_t bytes = 0;               // copies and memsets
  std::array<int32_t, 3> grid{};   // kernels
  std::array<int32_t, 3> block{};  // kernels
  int32_t registers = 0;           // kernels: per thread
  int32_t shared_bytes = 0;        // kernels: static and dynamic
  uint64_t graph_node = 0;         // GPU work of a CUDA graph; 0: none
};

// What a capture could not see.
struct CaptureLoss {
  int64_t record_count = 0;
  // Kinds of records that the source could not collect: "overhead", ...
  std::vector<std::string> missing_kinds;
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void OnActivity(ActivityRecord record) = 0;
};

class ActivitySource {
 public:
  virtual ~ActivitySource() = default;
  // `sink` is called from any thread, one call at a time, until Stop() returns, and never after.
  virtual absl::Status Start(RecordSink& sink) = 0;
  // Waits until the records of all work launched so far are delivered. The device must have
  // finished it. Only after a successful Start().
  virtual absl::StatusOr<CaptureLoss> Stop() = 0;

  // Calls on this thread belong to phase `id` (not 0) until PopPhase(). May nest. Nothing between
  // Stop() and Start().
  virtual void PushPhase(uint32_t id) { (void)id; }
  virtual void PopPhase() {}
};

}  // namespace libreyolo::worker
