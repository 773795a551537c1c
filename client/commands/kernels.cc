#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/reader.h"
#include "client/commands/rows.h"
#include "client/render/json.h"
#include "client/render/text.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunKernels(const Context& context) {
  const Arguments& args = context.args();
  LY_RETURN_IF_ERROR(CheckTop(args));
  const std::string sort = args.Text("--sort");
  if (sort != "time" && sort != "count" && sort != "name") {
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat("--sort takes time, count or name, not \"", sort, "\""),
                     {"--sort time is the default"});
  }
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context));
  v1::GetKernelsRequest request;
  request.set_top(args.Int("--top"));
  request.set_category(args.Text("--category"));
  request.set_grep(args.Text("--grep"));
  request.set_tensor_core_only(args.Switch("--tensorcore"));
  request.set_sort(sort);
  request.set_phase(args.Text("--phase"));
  v1::KernelsReport report;
  LY_RETURN_IF_ERROR(reader.Read(args.Word(0), [&](const v1::TraceRef& trace) {
    *request.mutable_trace() = trace;
    return CallForAllPages(reader.stub(), &v1::ProfileService::Stub::GetKernels, request, report);
  }));
  if (context.json()) {
    reader.PrintDocument(KernelsJson(report));
  } else {
    context.out() << KernelsText(report, TextWidth(context.streams));
    NoteRest(context, report, "kernels");
    const bool is_filtered = args.IsTyped("--category") || args.IsTyped("--grep") ||
                             args.IsTyped("--tensorcore") || args.IsTyped("--phase");
    if (is_filtered && report.matched() > 0) {
      context.Note(
          absl::StrCat("note: the kernels that match take ",
                       report.has_matched_ms_per_step()
                           ? absl::StrFormat("%.3f ms a step, ", report.matched_ms_per_step())
                           : "",
                       absl::StrFormat("%.2f %% of the GPU's time", report.matched_percent())));
    }
  }
  return 0;
}

}  // namespace libreyolo::client
