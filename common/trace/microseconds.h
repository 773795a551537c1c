// Time stamps as traces write them. Pure.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace libreyolo::trace {

// A number of microseconds as written in JSON, exactly as nanoseconds (halves of a nanosecond away
// from zero). False when it is no finite number or beyond 64 bits.
bool ParseMicroseconds(absl::string_view token, int64_t& nanoseconds);

}  // namespace libreyolo::trace
