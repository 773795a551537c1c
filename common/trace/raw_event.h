// The tokens of one event, as they stand in the text. Internal to the event parser.
#pragma once

#include <simdjson.h>

#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::trace {

enum class Category : uint8_t {
  kUnknown,  // not seen yet
  kOther,
  kOp,
  kKernel,
  kCopy,
  kMemset,
  kCall,
  kAnnotation,
  kGpuAnnotation,
};

// The inside of a string token; any other token as it is.
inline absl::string_view Unquoted(absl::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    return token.substr(1, token.size() - 2);
  }
  return token;
}

// A whole number, maybe in quotes or behind the word "stream" (2021). -1 when it is none.
int64_t IntOf(absl::string_view token);

// The tokens of one event, as written.
struct RawEvent {
  absl::string_view phase = "";  // without quotes
  absl::string_view name = "";   // token
  absl::string_view pid = "";    // token
  absl::string_view tid = "";    // token
  absl::string_view start = "";  // token
  absl::string_view duration = "";
  Category category = Category::kUnknown;
  int64_t correlation = kNoCorrelation;
  int64_t device = -1;
  int64_t stream = -1;
  int64_t graph_node = 0;
  int64_t bare_numbers = 0;
  absl::string_view argument_name = "";  // args.name, without quotes

  bool NeedsArguments() const {
    switch (category) {
      case Category::kUnknown:
      case Category::kKernel:
      case Category::kCopy:
      case Category::kMemset:
      case Category::kCall:
        return true;
      default:
        return false;
    }
  }

  void AddArgument(const char* key, absl::string_view token);
  simdjson::error_code ReadArguments(simdjson::ondemand::value& value);
  simdjson::error_code Read(simdjson::ondemand::object& object);
};

}  // namespace libreyolo::trace
