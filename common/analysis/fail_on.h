// The gates of `compare --fail-on`: METRIC, then < or >, then a signed change in per cent or an
// absolute value of the second profile.
//
//   img_per_s<-5%        true when throughput fell by more than 5 %
//   latency_p99_ms>20    true when the second profile's p99 is above 20 ms
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

struct FailCondition {
  std::string text;  // as typed
  std::string metric;
  bool less = true;      // "<", else ">"
  bool percent = false;  // a relative change, else the second profile's value
  double limit = 0;
};

// ARGUMENT_INVALID for anything else.
absl::StatusOr<FailCondition> ParseFailCondition(absl::string_view text);

struct FailResult {
  FailCondition condition;
  double before = 0;
  double after = 0;
  double value = 0;  // what was held against the limit
  bool met = false;
  std::string text;  // the condition with its numbers put in
};

// UNKNOWN_METRIC when a side lacks the metric, or knows no number for it. `ms_per_image` is a
// metric too.
absl::StatusOr<FailResult> EvaluateFailCondition(const FailCondition& condition,
                                                 const Profile& before, const Profile& after);

}  // namespace libreyolo::analysis
