#include <grpcpp/client_context.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/measure.h"
#include "client/commands/reader.h"
#include "client/exit_code.h"
#include "client/rpc/output_file.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr char kToStdout[] = "-";

// Where the page goes: a file that is not there before it is whole, or standard output once it is.
class Sink {
 public:
  static absl::StatusOr<Sink> Make(const Arguments& args) {
    Sink sink;
    const std::string path = args.Text("--output");
    if (path == kToStdout) return sink;
    LY_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Make(path, args.Switch("--force"), "-o"));
    sink.file_.emplace(std::move(file));
    return sink;
  }
  absl::Status Append(const std::string& data) {
    bytes_ += static_cast<int64_t>(data.size());
    if (file_.has_value()) return file_->Append(data);
    text_ += data;
    return absl::OkStatus();
  }
  absl::Status Finish(std::ostream& out) {
    if (file_.has_value()) return file_->Commit();
    out << text_;
    return absl::OkStatus();
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::optional<OutputFile> file_;
  std::string text_;
  int64_t bytes_ = 0;
};

absl::Status Receive(Reader& reader, const v1::ExportTimelineRequest& request, Sink& sink,
                     v1::TimelineInfo& info, ProgressView& progress) {
  grpc::ClientContext context;
  const auto stream = reader.stub().ExportTimeline(&context, request);
  v1::TimelineChunk chunk;
  int64_t total = 0;
  while (stream->Read(&chunk)) {
    if (chunk.has_info()) info = chunk.info();
    total = chunk.total_bytes();
    if (const absl::Status status = sink.Append(chunk.data()); !status.ok()) {
      context.TryCancel();
      (void)stream->Finish();  // the cancelled call's; `status` says why
      return status;
    }
    progress.ShowBytes("fetching the page", sink.bytes(), total);
  }
  LY_RETURN_IF_ERROR(StatusOfCall(stream->Finish()));
  if (sink.bytes() != total || total == 0) {
    return MakeError(reason::kServerUnreachable,
                     absl::StrCat("the server sent ", sink.bytes(), " of ", total, " bytes"),
                     {"run the command again"});
  }
  return absl::OkStatus();
}

void PrintJson(const Reader& reader, const std::string& path, int64_t bytes,
               const v1::TimelineInfo& info) {
  JsonValue json{JsonValue::Object{}};
  json.Set("timeline", path);
  json.Set("bytes", bytes);
  json.Set("has_trace", info.has_trace());
  json.Set("events", info.event_count());
  json.Set("slices", info.slice_count());
  json.Set("merged_events", info.merged_count());
  json.Set("notes", JsonValue(JsonValue::Array(info.notes().begin(), info.notes().end())));
  reader.PrintDocument(std::move(json));
}

}  // namespace

absl::StatusOr<int> RunTimeline(const Context& context) {
  const Arguments& args = context.args();
  const std::string path = args.Text("--output");
  if (context.json() && path == kToStdout) {
    return MakeError(reason::kArgumentConflict, "--json and -o - both write to standard output",
                     {"-o FILE, or no --json"});
  }
  if (args.Int("--max-events") < 1) {  // 0 would mean the default to the server
    return MakeError(
        reason::kArgumentOutOfRange,
        absl::StrCat("--max-events takes 1000 to 5000000, not ", args.Int("--max-events")),
        {"leave it out for 1,000,000"});
  }
  // Before anything is read, so that a page is not made in vain.
  LY_ASSIGN_OR_RETURN(Sink sink, Sink::Make(args));
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context, Beside::kTrace));
  ProgressView progress(context.err(), ProgressStyleOf(context), context.deps.clock);
  v1::ExportTimelineRequest request;
  request.set_max_slices(args.Int("--max-events"));
  v1::TimelineInfo info;
  LY_RETURN_IF_ERROR(reader.Read(args.Word(0), [&](const v1::TraceRef& trace) {
    *request.mutable_trace() = trace;
    return Receive(reader, request, sink, info, progress);
  }));
  progress.Clear();
  LY_RETURN_IF_ERROR(sink.Finish(context.out()));
  if (context.json()) {
    PrintJson(reader, path, sink.bytes(), info);
    return kExitOk;
  }
  for (const std::string& note : info.notes()) context.Note(absl::StrCat("note: ", note));
  if (path != kToStdout) context.out() << path << "\n";
  return kExitOk;
}

}  // namespace libreyolo::client
