// `--batch -1`: the largest batch whose training step keeps within a memory budget, found by trying
// real steps; and the batch that would have fitted, when one did not. Pure; what a try does is the
// caller's.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace libreyolo::worker {

// What part of the device's memory a step may take.
inline constexpr double kBatchMemoryShare = 0.7;

struct BatchProbeOptions {
  int64_t budget_bytes = 0;
  int max_batch = 1024;
};

struct BatchChoice {
  int batch = 1;
  std::vector<std::pair<int, int64_t>> tries;  // batch and the step's peak memory, in order
  // The budget would allow more than `max_batch`.
  bool is_bounded_by_maximum = false;
};

// `peak_of` runs a whole training step at a batch and returns the most memory that it held in
// bytes, or OUT_OF_MEMORY, which ends the climb. 1, 2, 4 ... are tried until the budget is passed
// or four tries allow a straight line; the batch that the line gives is tried too, and lowered
// while it does not hold. Other errors, and OUT_OF_MEMORY at batch 1, are returned. A batch of 1
// over the budget is still chosen: nothing smaller exists.
absl::StatusOr<BatchChoice> ChooseBatch(const BatchProbeOptions& options,
                                        absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of);

// `failure` of work at `batch`; when that is OUT_OF_MEMORY, with the batch that would have fitted
// as its first way out and as the fact "fitting_batch" (0: not even 1 does), found by trying as
// above on a device with `memory_bytes`. It is a tenth, at least one, below what a try could take:
// a whole job holds a little more. What the failed work held must have been given back.
absl::Status WithBatchThatFits(const absl::Status& failure, int batch, int64_t memory_bytes,
                               absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of);

}  // namespace libreyolo::worker
