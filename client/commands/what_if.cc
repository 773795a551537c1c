#include "client/commands/reader.h"
#include "client/render/text.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunWhatIf(const Context& context) {
  const Arguments& args = context.args();
  const std::string category = args.Text("--remove-category");
  if (category.empty() && !args.IsTyped("--remove-launches")) {
    return MakeError(reason::kArgumentInvalid,
                     "what-if needs --remove-category TEXT or --remove-launches N",
                     {"libreyolo profile kernels TRACE shows the categories",
                      "--remove-launches 100 asks what 100 launches per step less would give"});
  }
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context));
  v1::WhatIfRequest request;
  request.set_remove_category(category);
  if (args.IsTyped("--remove-launches")) request.set_remove_launches(args.Int("--remove-launches"));
  v1::WhatIfReport report;
  LY_RETURN_IF_ERROR(reader.Read(args.Word(0), [&](const v1::TraceRef& trace) {
    *request.mutable_trace() = trace;
    return Call(reader.stub(), &v1::ProfileService::Stub::WhatIf, request, report);
  }));
  if (context.json()) {
    reader.PrintDocument(report.document_json());
  } else {
    context.out() << WhatIfText(report);
  }
  return 0;
}

}  // namespace libreyolo::client
