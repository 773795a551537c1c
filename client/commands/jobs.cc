#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/commands/measure.h"
#include "client/commands/rows.h"
#include "client/exit_code.h"
#include "client/render/json.h"
#include "client/render/table.h"
#include "client/rpc/job_client.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using Stub = v1::JobService::Stub;

struct JobService {
  Server server;
  std::unique_ptr<Stub> stub;
};

absl::StatusOr<JobService> ConnectToJobs(const Context& context) {
  LY_ASSIGN_OR_RETURN(Server server, context.Connect(NeedDaemon::kAny));
  std::unique_ptr<Stub> stub = v1::JobService::NewStub(server.channel);
  return JobService{std::move(server), std::move(stub)};
}

std::string ModeOf(const v1::Job& job) {
  if (!job.has_spec()) return "";
  return job.spec().has_train() ? "train" : "inference";
}

// What a row of the list ends with: the result, the reason, or how far it is.
std::string RemarkOn(const v1::Job& job) {
  if (job.has_error()) return absl::StrCat(job.error().reason(), ": ", job.error().message());
  if (!job.profile().empty()) return job.profile();
  if (!job.waiting_for().empty()) return job.waiting_for();
  if (job.progress().stage().empty()) return "";
  if (job.progress().total() <= 0) return job.progress().stage();
  return absl::StrCat(job.progress().stage(), " ", job.progress().done(), "/",
                      job.progress().total());
}

// When a queued job will start, as far as the server can tell.
std::string ExpectedText(const v1::Job& job) {
  if (!job.has_expected_wait()) return "";
  const int64_t minutes = job.expected_wait().seconds() / 60;
  return minutes < 1 ? "in less than a minute, as the last jobs went"
                     : absl::StrCat("in about ", minutes, " min, as the last jobs went");
}

void PrintJob(const Context& context, const v1::Job& job) {
  std::ostream& out = context.out();
  if (context.json()) {
    out << JobJson(job).ToIndented() << "\n";
    return;
  }
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) out << absl::StrCat(name, value, "\n");
  };
  line("job:      ", job.id());
  line("state:    ", StateName(job.state()));
  line("mode:     ", ModeOf(job));
  line("device:   ", job.spec().device());
  line("created:  ", TimeText(job.has_create_time(), job.create_time()));
  line("started:  ", TimeText(job.has_start_time(), job.start_time()));
  line("ended:    ", TimeText(job.has_end_time(), job.end_time()));
  if (job.has_queue_position()) line("ahead:    ", absl::StrCat(job.queue_position()));
  line("waits:    ", job.waiting_for());
  line("starts:   ", ExpectedText(job));
  if (job.trial_count() > 1) {
    line("trial:    ", absl::StrCat(job.trial() + 1, " of ", job.trial_count()));
  }
  if (!job.has_error() && job.profile().empty() && job.waiting_for().empty()) {
    line("progress: ", RemarkOn(job));
  }
  if (job.has_error()) {
    line("error:    ", absl::StrCat(job.error().reason(), ": ", job.error().message()));
    for (const std::string& hint : job.error().hints()) line("hint:     ", hint);
  }
  line("profile:  ", job.profile());
  line("trace:    ", job.trace());
  for (const std::string& note : job.notes()) line("note:     ", note);
}

absl::StatusOr<v1::Job> GetJob(Stub& stub, const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  v1::Job job;
  LY_RETURN_IF_ERROR(Call(stub, &Stub::GetJob, request, job));
  return job;
}

// Events come without the spec, so the job is read once more at its end.
absl::StatusOr<FollowResult> FollowToEnd(const Context& context, const JobService& service,
                                         const std::string& id, const ProgressStyle& style) {
  ProgressView progress(context.err(), style, context.deps.clock);
  FollowOptions options;
  options.cancel_on_interrupt = false;
  options.on_event = [&](const v1::Job& job) { progress.Show(job); };
  options.on_note = [&](const std::string& text) { progress.Note(text); };
  LY_ASSIGN_OR_RETURN(FollowResult result, FollowJob(service.server, id, options));
  if (result.end == FollowEnd::kTerminal) {
    LY_ASSIGN_OR_RETURN(result.job, GetJob(*service.stub, id));
  }
  return result;
}

}  // namespace

absl::StatusOr<int> RunJobsList(const Context& context) {
  LY_RETURN_IF_ERROR(CheckTop(context.args()));
  LY_ASSIGN_OR_RETURN(const JobService service, ConnectToJobs(context));
  const int top = context.args().Int("--top");
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  request.set_active_only(context.args().Switch("--active"));
  do {
    v1::ListJobsResponse response;
    LY_RETURN_IF_ERROR(Call(*service.stub, &Stub::ListJobs, request, response));
    for (v1::Job& job : *response.mutable_jobs()) jobs.push_back(std::move(job));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() && (top == 0 || jobs.size() < static_cast<size_t>(top)));
  if (top > 0 && jobs.size() > static_cast<size_t>(top)) jobs.resize(static_cast<size_t>(top));
  if (context.json()) {
    JsonValue::Array items;
    for (const v1::Job& job : jobs) items.push_back(JobJson(job));
    JsonValue json{JsonValue::Object{}};
    json.Set("jobs", JsonValue(std::move(items)));
    context.out() << json.ToIndented() << "\n";
    return kExitOk;
  }
  Table table({{"job"}, {"state"}, {"mode"}, {"device"}, {"created"}, {""}});
  for (const v1::Job& job : jobs) {
    table.Add({job.id(), StateName(job.state()), ModeOf(job), job.spec().device(),
               TimeText(job.has_create_time(), job.create_time()), RemarkOn(job)});
  }
  context.out() << (table.empty() ? "no jobs\n" : table.ToText());
  return kExitOk;
}

absl::StatusOr<int> RunJobsShow(const Context& context) {
  LY_ASSIGN_OR_RETURN(const JobService service, ConnectToJobs(context));
  LY_ASSIGN_OR_RETURN(const v1::Job job, GetJob(*service.stub, context.args().Word(0)));
  PrintJob(context, job);
  return kExitOk;
}

absl::StatusOr<int> RunJobsWatch(const Context& context) {
  LY_ASSIGN_OR_RETURN(const JobService service, ConnectToJobs(context));
  LY_ASSIGN_OR_RETURN(
      const FollowResult result,
      FollowToEnd(context, service, context.args().Word(0), ProgressStyleOf(context)));
  if (result.end == FollowEnd::kInterrupted) {
    context.Note(absl::StrCat("left job ", context.args().Word(0), "; it goes on"));
    return kExitInterrupted;
  }
  if (result.job.state() != v1::JOB_STATE_SUCCEEDED) return JobError(result.job);
  PrintJob(context, result.job);
  return kExitOk;
}

absl::StatusOr<int> RunJobsCancel(const Context& context) {
  LY_ASSIGN_OR_RETURN(const JobService service, ConnectToJobs(context));
  v1::CancelJobRequest request;
  request.set_id(context.args().Word(0));
  v1::Job job;
  LY_RETURN_IF_ERROR(Call(*service.stub, &Stub::CancelJob, request, job));
  // Only the end is of interest; a bar says that it is waited for, lines of states would not.
  ProgressStyle style = ProgressStyleOf(context);
  style.silent = style.silent || !style.bar;
  LY_ASSIGN_OR_RETURN(const FollowResult result,
                      FollowToEnd(context, service, request.id(), style));
  if (result.end == FollowEnd::kInterrupted) {
    context.Note(absl::StrCat("left job ", request.id(), "; its cancellation stands"));
    return kExitInterrupted;
  }
  if (context.json()) {
    PrintJob(context, result.job);
  } else {
    context.out() << absl::StrCat(result.job.id(), " ", StateName(result.job.state()), "\n");
  }
  return kExitOk;
}

absl::StatusOr<int> RunJobsLogs(const Context& context) {
  LY_ASSIGN_OR_RETURN(const JobService service, ConnectToJobs(context));
  v1::GetJobLogRequest request;
  request.set_id(context.args().Word(0));
  v1::GetJobLogResponse response;
  LY_RETURN_IF_ERROR(Call(*service.stub, &Stub::GetJobLog, request, response));
  if (context.json()) {
    JsonValue json{JsonValue::Object{}};
    json.Set("job", request.id());
    json.Set("text", response.text());
    context.out() << json.ToIndented() << "\n";
    return kExitOk;
  }
  context.out() << response.text();
  if (!response.text().empty() && response.text().back() != '\n') context.out() << "\n";
  return kExitOk;
}

}  // namespace libreyolo::client
