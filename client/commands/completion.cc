#include <grpcpp/client_context.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/complete.h"
#include "client/completion/scripts.h"
#include "client/exit_code.h"
#include "client/render/json.h"
#include "client/render/table.h"
#include "client/rpc/local_daemon.h"
#include "common/base/status_macros.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// Somebody waits with a finger on the key: rather no live names than late ones.
constexpr unsigned kPatienceS = 2;
constexpr int kMostRows = 100;

void PrintCandidate(std::ostream& out, const std::string& current, absl::string_view word,
                    absl::string_view help) {
  if (absl::StartsWith(word, current)) out << word << "\t" << help << "\n";
}

class Asker {
 public:
  Asker(const Completions& wanted, Server server, std::ostream& out)
      : wanted_(wanted), server_(std::move(server)), out_(out) {}

  void PrintJobs() {
    v1::ListJobsRequest request;
    request.set_page_size(kMostRows);
    v1::ListJobsResponse response;
    if (!Call(*v1::JobService::NewStub(server_.channel), &v1::JobService::Stub::ListJobs, request,
              response)
             .ok()) {
      return;
    }
    for (const v1::Job& job : response.jobs()) {
      Print(job.id(), absl::StrCat(StateName(job.state()), " ", job.profile()));
    }
  }

  void PrintProfiles() {
    v1::ListProfilesRequest request;
    request.set_page_size(kMostRows);
    v1::ListProfilesResponse response;
    if (!Call(*Profiles(), &v1::ProfileService::Stub::ListProfiles, request, response).ok()) return;
    for (const v1::ProfileInfo& profile : response.profiles()) {
      Print(profile.path(), absl::StrCat(profile.mode(), " ", profile.model()));
    }
  }

  void PrintDevices() {
    v1::ListDevicesResponse response;
    if (!Call(*v1::DeviceService::NewStub(server_.channel), &v1::DeviceService::Stub::ListDevices,
              v1::ListDevicesRequest(), response)
             .ok()) {
      return;
    }
    for (const v1::Device& device : response.devices()) {
      if (device.id() != "cpu") Print(device.id(), device.description());
    }
  }

  void PrintMetrics() {
    v1::GetMetricRequest request;
    *request.mutable_trace() = Trace();
    v1::GetMetricResponse response;
    if (!Call(*Profiles(), &v1::ProfileService::Stub::GetMetric, request, response).ok()) return;
    for (const std::string& name : response.names()) Print(name, "");
  }

  void PrintPhases() {
    v1::GetPhasesRequest request;
    *request.mutable_trace() = Trace();
    v1::PhasesReport report;
    if (!Call(*Profiles(), &v1::ProfileService::Stub::GetPhases, request, report).ok()) return;
    for (const v1::PhaseRow& row : report.rows()) Print(row.name(), "");
  }

 private:
  std::unique_ptr<v1::ProfileService::Stub> Profiles() {
    return v1::ProfileService::NewStub(server_.channel);
  }

  // By name alone: a key is no reason to upload a file.
  v1::TraceRef Trace() const {
    v1::TraceRef trace;
    const std::string& word = wanted_.trace;
    if (server_.local && absl::StartsWith(word, "/")) {
      trace.set_local_path(word);
    } else {
      trace.set_name(std::string(absl::StripPrefix(word, "./")));
    }
    return trace;
  }

  void Print(absl::string_view word, absl::string_view help) {
    // A shell puts it on the command line as it is: nothing that a shell would read as more.
    const bool is_plain = std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
             absl::string_view("._-/:+=@%,").find(c) != absl::string_view::npos;
    });
    if (is_plain) PrintCandidate(out_, wanted_.current, word, Printable(help));
  }

  const Completions& wanted_;
  Server server_;
  std::ostream& out_;
};

void PrintLive(const Completions& wanted, Asker& asker) {
  switch (wanted.live) {
    case LiveWords::kNone:
      return;
    case LiveWords::kJobs:
      return asker.PrintJobs();
    case LiveWords::kTraces:
      asker.PrintProfiles();
      return asker.PrintJobs();
    case LiveWords::kDevices:
      return asker.PrintDevices();
    case LiveWords::kMetrics:
      return asker.PrintMetrics();
    case LiveWords::kPhases:
      return asker.PrintPhases();
  }
}

// A key starts no daemon, and opens no ssh that could want a password.
bool MayAsk(const Completions& wanted, const Deps& deps) {
  std::string address = deps.env("LIBREYOLO_SERVER").value_or("");
  for (size_t i = 0; i + 1 < wanted.server_flags.size(); i += 2) {
    if (wanted.server_flags[i] == "--server") address = wanted.server_flags[i + 1];
  }
  if (!address.empty()) return !absl::StartsWith(address, "ssh:");
  const absl::StatusOr<LocalDaemonPlace> place = FindLocalDaemonPlace();
  return place.ok() && IsListening(place->socket_path);
}

}  // namespace

absl::StatusOr<int> RunCompletion(const Context& context) {
  const std::string shell = context.args().Word(0);
  for (const CompletionScript& script : kCompletionScripts) {
    if (shell != script.shell) continue;
    context.out() << script.text;
    return kExitOk;
  }
  return MakeError(reason::kArgumentInvalid,
                   absl::StrCat("there is no completion for \"", shell, "\""),
                   {"libreyolo completion takes bash, zsh or fish"});
}

int RunComplete(const std::vector<std::string>& words, const Streams& streams, const Deps& deps) {
  const Completions wanted = Complete(words);
  std::ostream& out = streams.out;
  for (const Candidate& candidate : wanted.candidates) {
    PrintCandidate(out, wanted.current, candidate.word, candidate.help);
  }
  if (wanted.files) out << ":files\n";
  if (wanted.live == LiveWords::kNone || !MayAsk(wanted, deps)) return kExitOk;
  // What is known without a server is out before one is asked. A server that hangs ends the
  // process, and nothing is lost by it.
  out.flush();
  signal(SIGALRM, [](int) { _exit(kExitOk); });
  alarm(kPatienceS);
  const absl::Cleanup no_alarm = [] { alarm(0); };
  std::vector<std::string> line = {"jobs", "list"};
  line.insert(line.end(), wanted.server_flags.begin(), wanted.server_flags.end());
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(line);
  if (!parsed.ok()) return kExitOk;
  const Context context{*parsed, streams, deps};
  absl::StatusOr<Server> server = context.Connect(NeedDaemon::kAny);
  if (!server.ok()) return kExitOk;
  Asker asker(wanted, *std::move(server), out);
  PrintLive(wanted, asker);
  return kExitOk;
}

}  // namespace libreyolo::client
