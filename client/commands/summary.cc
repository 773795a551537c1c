#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/commands/reader.h"
#include "client/commands/rows.h"
#include "client/render/table.h"
#include "client/render/text.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunSummary(const Context& context) {
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context));
  v1::SummaryReport report;
  LY_RETURN_IF_ERROR(reader.Read(context.args().Word(0), [&](const v1::TraceRef& trace) {
    v1::GetSummaryRequest request;
    *request.mutable_trace() = trace;
    return Call(reader.stub(), &v1::ProfileService::Stub::GetSummary, request, report);
  }));
  if (context.json()) {
    reader.PrintDocument(report.document_json());
  } else {
    constexpr int kTitle = 9;  // "latency  "
    const std::string text = SummaryText(report);
    for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
      context.out() << WrapWords(line, TextWidth(context.streams), kTitle) << "\n";
    }
  }
  return 0;
}

}  // namespace libreyolo::client
