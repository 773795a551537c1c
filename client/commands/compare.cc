#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/commands/reader.h"
#include "client/commands/rows.h"
#include "client/exit_code.h"
#include "client/render/text.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunCompare(const Context& context) {
  const Arguments& args = context.args();
  // An unset variable of a script would be a gate that never fails.
  const std::vector<std::string> conditions = absl::StrSplit(args.Text("--fail-on"), '\n');
  const bool is_empty = std::any_of(conditions.begin(), conditions.end(),
                                    [](const std::string& one) { return one.empty(); });
  if (args.IsTyped("--fail-on") && is_empty) {
    return MakeError(
        reason::kArgumentInvalid, "--fail-on is empty",
        {"write METRIC<NUMBER or METRIC>NUMBER: 'img_per_s<-5%'", "leave it out to only compare"});
  }
  if (args.Word(0) == "-" && args.Word(1) == "-") {
    return MakeError(reason::kArgumentConflict, "standard input can be only one of the two",
                     {"write the other to a file"});
  }
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context));
  v1::CompareRequest request;
  request.set_force(args.Switch("--force"));
  request.set_fail_on(args.Text("--fail-on"));
  v1::CompareReport report;
  LY_RETURN_IF_ERROR(reader.ReadTwo(
      args.Word(0), args.Word(1), [&](const v1::TraceRef& before, const v1::TraceRef& after) {
        *request.mutable_before() = before;
        *request.mutable_after() = after;
        return Call(reader.stub(), &v1::ProfileService::Stub::Compare, request, report);
      }));
  if (context.json()) {
    reader.PrintDocument(report.document_json());
  } else {
    context.out() << CompareText(report, TextWidth(context.streams));
  }
  if (!report.condition_met()) return kExitOk;
  context.Note("--fail-on holds: " + report.condition());
  return kExitConditionMet;
}

}  // namespace libreyolo::client
