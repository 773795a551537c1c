// Time stamps as traces write them. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace libreyolo::trace {

// A number of microseconds as written in JSON, exactly as nanoseconds (halves of a nanosecond away
// from zero). False when it is no finite number or beyond 64 bits.
bool ParseMicroseconds(absl::string_view token, int64_t& nanoseconds);

// A number that JSON does not allow but whose value nobody doubts (+5, .5, 5., 5.e3), as JSON has
// it; none for anything else.
absl::optional<std::string> MendNumber(absl::string_view token);

}  // namespace libreyolo::trace
