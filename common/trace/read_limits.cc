#include "common/trace/read_limits.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/error.h"

namespace libreyolo::trace {

namespace {

// "--max-trace-bytes" is LIBREYOLO_MAX_TRACE_BYTES where the daemon is started by a client.
std::string VariableOf(absl::string_view flag) {
  const std::string name = absl::StrReplaceAll(flag.substr(2), {{"-", "_"}});
  return absl::StrCat("LIBREYOLO_", absl::AsciiStrToUpper(name));
}

}  // namespace

absl::Status LimitPassed(absl::string_view what, absl::string_view flag) {
  return MakeError(reason::kTraceTooLarge, what,
                   {absl::StrCat("record fewer steps, or raise the limit: libreyolod ", flag,
                                 " (0: any); for the local daemon ", VariableOf(flag),
                                 ", and libreyolo daemon restart")},
                   {{"limit", std::string(flag)}});
}

}  // namespace libreyolo::trace
