#include "server/worker/workload/step_memory.h"

#include <malloc.h>

#include "common/base/error.h"
#include "server/worker/torch_call.h"

namespace libreyolo::worker {

absl::StatusOr<int64_t> StepMemory::TotalBytes() const {
  int64_t total = 0;
  if (device_.is_cpu()) {
    total = host_.AvailableMemoryBytes() + host_.ResidentBytes();
  } else {
    const absl::Status status = CallTorch([&] { total = device_.TotalMemoryBytes(); });
    if (!status.ok()) return status;
  }
  if (total > 0) return total;
  return MakeError(reason::kInternal, "the amount of memory cannot be read",
                   {"name a batch: --batch 16"});
}

absl::Status StepMemory::Reset() const {
  if (device_.is_cpu()) {
    malloc_trim(0);
    return host_.ResetPeakResident();
  }
  return CallTorch([this] {
    device_.EmptyCache();
    device_.ResetPeakMemory();
  });
}

absl::StatusOr<int64_t> StepMemory::PeakBytes() const {
  if (device_.is_cpu()) return host_.PeakResidentSinceReset();
  int64_t peak = 0;
  const absl::Status status = CallTorch([&] { peak = device_.PeakReservedBytes(); });
  if (!status.ok()) return status;
  return peak;
}

}  // namespace libreyolo::worker
