#include "common/trace/read_limits.h"

#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::trace {

absl::Status LimitPassed(absl::string_view what, absl::string_view flag) {
  return MakeError(
      reason::kTraceTooLarge, what,
      {absl::StrCat("record fewer steps, or raise the limit: libreyolod ", flag, " (0: any)")},
      {{"limit", std::string(flag)}});
}

}  // namespace libreyolo::trace
