#include "client/commands/reader.h"
#include "client/commands/rows.h"
#include "client/render/json.h"
#include "client/render/text.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunOps(const Context& context) {
  const Arguments& args = context.args();
  LY_RETURN_IF_ERROR(CheckTop(args));
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context));
  v1::GetOpsRequest request;
  request.set_top(args.Int("--top"));
  request.set_phase(args.Text("--phase"));
  v1::OpsReport report;
  LY_RETURN_IF_ERROR(reader.Read(args.Word(0), [&](const v1::TraceRef& trace) {
    *request.mutable_trace() = trace;
    return CallForAllPages(reader.stub(), &v1::ProfileService::Stub::GetOps, request, report);
  }));
  if (context.json()) {
    reader.PrintDocument(OpsJson(report));
  } else {
    context.out() << OpsText(report, TextWidth(context.streams));
    NoteRest(context, report, "operations");
  }
  return 0;
}

}  // namespace libreyolo::client
