#include "client/commands/measure.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/exit_code.h"
#include "client/render/json.h"
#include "client/render/text.h"
#include "client/rpc/inputs.h"
#include "client/rpc/job_client.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// OMP_NUM_THREADS may list a number per nesting level; the first is ours. Anything else is no wish.
std::optional<int32_t> ThreadsOfEnvironment(const Context& context) {
  const std::optional<std::string> text = context.deps.env("OMP_NUM_THREADS");
  if (!text.has_value()) return std::nullopt;
  int32_t threads = 0;
  if (!absl::SimpleAtoi(text->substr(0, text->find(',')), &threads) || threads < 1) {
    return std::nullopt;
  }
  return threads;
}

void FillEnvironment(const Context& context, const Server& server, v1::JobSpec& spec) {
  if (context.args().IsTyped("--threads")) {
    spec.set_threads(context.args().Int("--threads"));
  } else if (const std::optional<int32_t> threads = ThreadsOfEnvironment(context)) {
    spec.set_threads(*threads);
  }
  if (!server.local) return;
  if (const std::optional<std::string> visible = context.deps.env("CUDA_VISIBLE_DEVICES")) {
    // Set but empty hides every GPU; the field cannot say "set", and -1 means the same to CUDA.
    spec.set_cuda_visible_devices(visible->empty() ? "-1" : *visible);
  }
}

absl::StatusOr<v1::SummaryReport> ReadResult(const Server& server, const v1::Job& job,
                                             const std::string& workspace) {
  const auto stub = v1::ProfileService::NewStub(server.channel);
  v1::GetSummaryRequest request;
  request.mutable_trace()->set_name(job.profile());
  request.mutable_trace()->set_typed(job.profile());
  request.mutable_trace()->set_workspace(workspace);
  v1::SummaryReport report;
  LY_RETURN_IF_ERROR(Call(*stub, &v1::ProfileService::Stub::GetSummary, request, report));
  return report;
}

void PrintResult(const Context& context, const v1::Job& job, const v1::SummaryReport& report,
                 bool is_training) {
  std::ostream& out = context.out();
  if (context.json()) {
    out << (is_training ? RunResultJson(job, report) : InferResultJson(job, report)).ToIndented()
        << "\n";
    return;
  }
  // The words of a named server are needed to read the profile again; a variable still holds.
  const std::string server =
      context.line.server.empty() ? "" : absl::StrCat(" --server ", context.line.server);
  out << (is_training ? RunResultText(report) : InferResultText(report))
      << "profile: " << job.profile() << "\nnext:    libreyolo profile summary " << job.profile()
      << server << "\n";
  // What makes the figures doubtful; `summary` has the lesser remarks as well.
  context.err() << DoubtsText(report);
  for (const std::string& note : job.notes()) context.Note(absl::StrCat("note: ", note));
}

absl::StatusOr<FollowResult> Follow(const Context& context, const Server& server,
                                    ProgressView& progress, const std::string& job_id) {
  FollowOptions options;
  options.on_event = [&](const v1::Job& job) { progress.Show(job); };
  options.on_note = [&](const std::string& text) { progress.Note(text); };
  absl::StatusOr<FollowResult> result = FollowJob(server, job_id, options);
  progress.Clear();
  if (result.ok() && result->end == FollowEnd::kInterrupted) {
    context.Note(result->cancel_confirmed
                     ? absl::StrCat("left job ", job_id, "; its cancellation stands")
                     : absl::StrCat("left job ", job_id,
                                    "; the server has not confirmed its cancellation: libreyolo "
                                    "jobs cancel ",
                                    job_id));
  }
  return result;
}

}  // namespace

ProgressStyle ProgressStyleOf(const Context& context) {
  const auto env = [&](const char* name) { return context.deps.env(name).value_or(""); };
  ProgressStyle style;
  style.silent = context.json();
  style.bar = context.streams.err_is_terminal && env("NO_COLOR").empty() && env("TERM") != "dumb";
  style.columns = context.streams.err_columns;
  return style;
}

absl::Status FillCommonSpec(const Context& context, const Server& server, ProgressView& progress,
                            v1::JobSpec& spec) {
  const Arguments& args = context.args();
  if (args.IsTyped("--weights")) {
    LY_ASSIGN_OR_RETURN(*spec.mutable_weights(),
                        ResolveInput(server, args.Text("--weights"), InputKind::kWeights,
                                     [&](int64_t done, int64_t total) {
                                       progress.ShowBytes("uploading weights", done, total);
                                     }));
  }
  if (args.IsTyped("--size")) spec.set_size(args.Text("--size"));
  if (args.IsTyped("--batch")) spec.set_batch(args.Int("--batch"));
  if (args.IsTyped("--imgsz")) spec.set_imgsz(args.Int("--imgsz"));
  if (args.IsTyped("--warmup")) spec.set_warmup(args.Int("--warmup"));
  if (args.IsTyped("--repeat")) spec.set_repeat(args.Int("--repeat"));
  if (args.IsTyped("--device")) spec.set_device(args.Text("--device"));
  if (args.IsTyped("--on-contention")) spec.set_on_contention(args.Text("--on-contention"));
  if (args.IsTyped("--project")) spec.set_project(args.Text("--project"));
  FillEnvironment(context, server, spec);
  return absl::OkStatus();
}

absl::Status JobError(const v1::Job& job) {
  ErrorDetail detail;
  detail.reason = job.error().reason();
  detail.message = job.error().message();
  detail.hints.assign(job.error().hints().begin(), job.error().hints().end());
  for (const auto& [key, value] : job.error().metadata()) detail.metadata.emplace_back(key, value);
  const bool cancelled = job.state() == v1::JOB_STATE_CANCELLED;
  if (detail.reason.empty()) {
    detail.reason = cancelled ? reason::kCancelled.name : reason::kInternal.name;
  }
  if (detail.message.empty()) {
    detail.message = absl::StrCat("job ", job.id(), cancelled ? " was cancelled" : " failed");
  }
  if (absl::StartsWith(detail.reason, "WORKER_")) {
    detail.hints.push_back(absl::StrCat("libreyolo jobs logs ", job.id(), " shows what it wrote"));
  }
  const auto code = static_cast<absl::StatusCode>(job.error().code());
  return MakeErrorFromDetail(code, detail);
}

absl::StatusOr<int> Measure(const Context& context, const Server& server, ProgressView& progress,
                            const v1::JobSpec& spec) {
  progress.Clear();
  LY_ASSIGN_OR_RETURN(v1::Job job, CreateJob(server, spec, NewRequestId()));
  if (context.args().Switch("--detach")) {
    JsonValue json{JsonValue::Object{}};
    json.Set("job", job.id());
    context.out() << (context.json() ? json.ToIndented() : job.id()) << "\n";
    return kExitOk;
  }
  LY_ASSIGN_OR_RETURN(const FollowResult followed, Follow(context, server, progress, job.id()));
  if (followed.end == FollowEnd::kInterrupted) return kExitInterrupted;
  job = followed.job;
  if (job.state() != v1::JOB_STATE_SUCCEEDED) {
    if (!followed.interrupted) return JobError(job);
    context.Note(absl::StrCat("cancelled job ", job.id()));
    return kExitInterrupted;
  }
  LY_ASSIGN_OR_RETURN(const v1::SummaryReport report, ReadResult(server, job, spec.workspace()));
  PrintResult(context, job, report, spec.has_train());
  // The commit had begun when Ctrl-C came: the profile is there all the same.
  return followed.interrupted ? kExitInterrupted : kExitOk;
}

}  // namespace libreyolo::client
