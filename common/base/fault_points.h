// Steps that a test makes fail, by name: each place that may fail in the field asks its hook before
// (and, where there is something to lose, after) the step. Without a hook that costs a comparison.
//
// A plan is text, for LIBREYOLOD_FAULTS of a whole daemon:
//
//   exchange infer=crash; index commit=error@3; link receive=delay:200
//
// name=mode, where the name may end in * and the mode is
//
//   error     the step fails as on a full disk
//   delay:MS  it happens so much later
//   crash     the process ends, as by kill -9
//   log       a line in the log, to learn which points there are
//
// and @N means the Nth time only, counted from 1. Of several that match, each does its part.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace libreyolo {

// Asked at a point; an error fails the step. "after X" tells that X has happened: its answer is
// ignored. Thread-safe.
using FaultHook = std::function<absl::Status(const std::string& point)>;

// What `hook` says; fine without one.
inline absl::Status AtFaultPoint(const FaultHook& hook, const std::string& point) {
  return hook ? hook(point) : absl::OkStatus();
}

// InvalidArgument names what is wrong. An empty plan gives an empty hook.
absl::StatusOr<FaultHook> ParseFaultPlan(const std::string& plan);

}  // namespace libreyolo
