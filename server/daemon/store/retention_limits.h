// How long and how much a workspace keeps. Nothing is removed without a limit.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace libreyolo::daemon {

struct RetentionLimits {
  int64_t max_age_seconds = 0;  // 0: any
  int64_t max_count = 0;        // of results in a workspace, a repeat being one; 0: any
  int64_t max_bytes = 0;        // of results in a workspace; 0: any

  bool any() const { return max_age_seconds > 0 || max_count > 0 || max_bytes > 0; }
  absl::Duration max_age() const {
    return max_age_seconds > 0 ? absl::Seconds(max_age_seconds) : absl::InfiniteDuration();
  }
};

}  // namespace libreyolo::daemon
