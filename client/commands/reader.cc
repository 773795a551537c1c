#include "client/commands/reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

}  // namespace

Reader::Reader(const Context& context, Server server, Beside beside)
    : context_(&context),
      server_(std::move(server)),
      window_(context.args().Text("--window")),
      beside_(beside),
      stub_(v1::ProfileService::NewStub(server_.channel)) {}

absl::StatusOr<Reader> Reader::Make(const Context& context, Beside beside) {
  LY_ASSIGN_OR_RETURN(Server server, context.Connect(NeedDaemon::kAny));
  return Reader(context, std::move(server), beside);
}

absl::StatusOr<v1::TraceRef> Reader::Resolve(const std::string& word) const {
  // An unset variable of a script would otherwise mean the whole workspace.
  if (word.empty()) {
    return MakeError(reason::kArgumentInvalid, "the name of the profile is empty",
                     {"libreyolo profile list shows those there are"});
  }
  return ResolveTrace(server_, word, window_, beside_);
}

bool Reader::MayBeOwnFile(const std::string& word) const {
  return !server_.local && !IsOwnPath(word) && word != "-";
}

void Reader::NoteSource(const std::string& word, const v1::TraceRef& ref) {
  if (!MayBeOwnFile(word) || ref.ref_case() != v1::TraceRef::kName || !ExistsHere(word)) return;
  source_ = "server";
  context_->Note(absl::StrCat("note: read ", word, " of the server ", server_.address,
                              "; the file here is ./", word));
}

absl::Status Reader::Read(const std::string& word,
                          absl::FunctionRef<absl::Status(const v1::TraceRef&)> call) {
  LY_ASSIGN_OR_RETURN(v1::TraceRef ref, Resolve(word));
  absl::Status status = call(ref);
  if (HasReason(status, reason::kProfileNotFound) && MayBeOwnFile(word)) {
    absl::StatusOr<v1::TraceRef> own = RetryTraceAsOwnFile(server_, word, window_, beside_);
    if (absl::IsNotFound(own.status())) return status;  // neither here: the server's answer says so
    LY_RETURN_IF_ERROR(own.status());
    ref = *std::move(own);
    status = call(ref);
  }
  if (status.ok()) NoteSource(word, ref);
  return status;
}

absl::Status Reader::ReadTwo(
    const std::string& first, const std::string& second,
    absl::FunctionRef<absl::Status(const v1::TraceRef&, const v1::TraceRef&)> call) {
  LY_ASSIGN_OR_RETURN(v1::TraceRef first_ref, Resolve(first));
  LY_ASSIGN_OR_RETURN(v1::TraceRef second_ref, Resolve(second));
  absl::Status status = call(first_ref, second_ref);
  if (HasReason(status, reason::kProfileNotFound) && !server_.local) {
    // The error does not tell which of the two is missing; a cheap call on each does.
    const auto find = [&](const std::string& word, v1::TraceRef& found) {
      return Read(word, [&](const v1::TraceRef& ref) {
        found = ref;
        v1::GetMetricRequest request;
        v1::GetMetricResponse response;
        *request.mutable_trace() = ref;
        return Call(*stub_, &v1::ProfileService::Stub::GetMetric, request, response);
      });
    };
    LY_RETURN_IF_ERROR(find(first, first_ref));
    LY_RETURN_IF_ERROR(find(second, second_ref));
    return call(first_ref, second_ref);
  }
  if (status.ok()) {
    NoteSource(first, first_ref);
    NoteSource(second, second_ref);
  }
  return status;
}

void Reader::PrintDocument(const std::string& document_json) const {
  // An object of at least one member ends like this. The key is put in as text: it must not change
  // a byte of what the server wrote, and a JSON parser would cost every start of the client.
  constexpr absl::string_view kEnd = "\n}";
  absl::string_view members = document_json;
  if (!source_.has_value() || !absl::ConsumeSuffix(&members, kEnd)) {
    context_->out() << document_json << "\n";
    return;
  }
  context_->out() << members << ",\n  \"source\": " << JsonQuote(*source_) << kEnd << "\n";
}

void Reader::PrintDocument(JsonValue document) const {
  if (source_.has_value() && document.is_object()) document.Set("source", *source_);
  context_->out() << document.ToIndented() << "\n";
}

}  // namespace libreyolo::client
