#include "server/daemon/trace_limits.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::daemon {
namespace {

struct LimitName {
  const char* flag;
  const char* variable;
  int64_t trace::ReadLimits::*limit;
};
constexpr LimitName kLimits[] = {
    {trace::kMaxTraceBytesFlag, "LIBREYOLO_MAX_TRACE_BYTES", &trace::ReadLimits::max_bytes},
    {trace::kMaxTraceEventsFlag, "LIBREYOLO_MAX_TRACE_EVENTS", &trace::ReadLimits::max_events},
    {trace::kMaxTraceMemoryFlag, "LIBREYOLO_MAX_TRACE_MEMORY",
     &trace::ReadLimits::max_memory_bytes},
    {trace::kMaxTraceValueFlag, "LIBREYOLO_MAX_TRACE_VALUE", &trace::ReadLimits::max_value_bytes}};

// Far above every trace, and far enough from the type's end to be added to.
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;

}  // namespace

absl::StatusOr<trace::ReadLimits> ParseTraceLimits(
    const std::map<std::string, std::string>& given) {
  trace::ReadLimits limits;
  for (const LimitName& name : kLimits) {
    const auto flag = given.find(name.flag);
    const char* variable = std::getenv(name.variable);
    if (flag == given.end() && (variable == nullptr || *variable == '\0')) continue;
    const std::string text = flag != given.end() ? flag->second : variable;
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag != given.end() ? name.flag : name.variable,
                       " takes a whole number from 0 on, not \"", text, "\""));
    }
    limits.*name.limit = value == 0 || value > kNoLimit ? kNoLimit : value;
  }
  return limits;
}

}  // namespace libreyolo::daemon
