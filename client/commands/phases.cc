#include "client/commands/reader.h"
#include "client/commands/rows.h"
#include "client/render/text.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunPhases(const Context& context) {
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context));
  v1::PhasesReport report;
  LY_RETURN_IF_ERROR(reader.Read(context.args().Word(0), [&](const v1::TraceRef& trace) {
    v1::GetPhasesRequest request;
    *request.mutable_trace() = trace;
    return Call(reader.stub(), &v1::ProfileService::Stub::GetPhases, request, report);
  }));
  if (context.json()) {
    reader.PrintDocument(report.document_json());
  } else {
    context.out() << PhasesText(report, TextWidth(context.streams));
  }
  return 0;
}

}  // namespace libreyolo::client
