// What the commands that print rows share.
#pragma once

#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

// --top is a reader's own flag: how many rows to show. ARGUMENT_OUT_OF_RANGE when negative.
inline absl::Status CheckTop(const Arguments& args) {
  if (args.Int("--top") >= 0) return absl::OkStatus();
  return MakeError(reason::kArgumentOutOfRange, "--top takes 0 (all rows) or more",
                   {"--top 0 shows all rows"});
}

// Says on stderr how much --top left out.
template <typename Report>
void NoteRest(const Context& context, const Report& report, const char* what) {
  if (report.matched() == 0) context.Note(absl::StrCat("note: no ", what, " match"));
  if (report.matched() <= report.rows_size()) return;
  context.Note(absl::StrCat("note: ", report.rows_size(), " of ", report.matched(), " ", what,
                            "; --top 0 shows all"));
}

// The width that names are cut to; 0 where the output is no terminal.
inline int TextWidth(const Streams& streams) {
  return streams.out_is_terminal ? streams.out_columns : 0;
}

// The report of all pages: the first page's fields with the rows of all.
template <typename Stub, typename Request, typename Report>
absl::Status CallForAllPages(Stub& stub,
                             grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Report*),
                             Request request, Report& report) {
  request.clear_page_token();
  LY_RETURN_IF_ERROR(Call(stub, method, request, report));
  while (!report.next_page_token().empty()) {
    request.set_page_token(report.next_page_token());
    Report page;
    LY_RETURN_IF_ERROR(Call(stub, method, request, page));
    for (auto& row : *page.mutable_rows()) report.add_rows()->Swap(&row);
    report.set_next_page_token(page.next_page_token());
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::client
