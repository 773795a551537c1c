#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/rpc/local_daemon.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// A drain may have to end a job's processes first.
constexpr int kStopTimeoutS = 60;
constexpr int64_t kLogTailBytes = 256 * 1024;
constexpr absl::Duration kVersionDeadline = absl::Seconds(2);

absl::Status CheckIsLocal(const Context& context) {
  if (context.line.server.empty()) return absl::OkStatus();
  return MakeError(reason::kArgumentConflict,
                   "this command is for the local daemon of the current folder, and takes no "
                   "--server",
                   {"leave --server out and unset LIBREYOLO_SERVER",
                    "libreyolo daemon drain ends a named server, for an admin"});
}

// The daemon of the current folder; SERVER_UNREACHABLE when none runs. Starts none.
struct Running {
  LocalDaemonPlace place;
  v1::Capabilities about;
};

absl::StatusOr<Running> FindRunning(const Context& context) {
  LY_RETURN_IF_ERROR(CheckIsLocal(context));
  LY_ASSIGN_OR_RETURN(LocalDaemonPlace place, FindLocalDaemonPlace());
  if (!IsListening(place.socket_path)) {
    return MakeError(reason::kServerUnreachable,
                     absl::StrCat("no local daemon runs for ", place.workspace),
                     {"any command that needs one starts it"});
  }
  const auto stub =
      v1::ServerService::NewStub(MakeChannel(absl::StrCat("unix:", place.socket_path)));
  v1::Capabilities about;
  LY_RETURN_IF_ERROR(
      Call(*stub, &v1::ServerService::Stub::GetCapabilities, v1::GetCapabilitiesRequest(), about));
  return Running{std::move(place), std::move(about)};
}

absl::Status CheckIsIdle(const Context& context, const Running& running) {
  const int jobs = running.about.active_jobs();
  if (jobs == 0 || context.args().Switch("--force")) return absl::OkStatus();
  return MakeError(
      reason::kBusy, absl::StrCat(jobs, jobs == 1 ? " job has" : " jobs have", " not ended"),
      {"libreyolo jobs list --active shows them", "--force ends the daemon all the same"});
}

void PrintStatus(const Context& context, const Running& running) {
  const v1::Capabilities& about = running.about;
  std::ostream& out = context.out();
  const std::string log = about.log_path().empty() ? running.place.log_path() : about.log_path();
  const std::string workspace =
      about.workspace_root().empty() ? running.place.workspace : about.workspace_root();
  if (context.json()) {
    JsonValue json{JsonValue::Object{}};
    json.Set("version", about.version());
    json.Set("build", about.build_id());
    json.Set("pid", static_cast<int64_t>(about.pid()));
    json.Set("workspace", workspace);
    json.Set("active_jobs", static_cast<int64_t>(about.active_jobs()));
    json.Set("draining", about.draining());
    json.Set("socket", running.place.socket_path);
    json.Set("log", log);
    out << json.ToIndented() << "\n";
    return;
  }
  out << absl::StrCat("version:     ", about.version(), "\nbuild:       ", about.build_id(),
                      about.build_id() == BuildId() ? "" : " (another build than this client)",
                      "\npid:         ", about.pid(), "\nworkspace:   ", workspace,
                      "\nactive jobs: ", about.active_jobs(), about.draining() ? " (draining)" : "",
                      "\nsocket:      ", running.place.socket_path, "\nlog:         ", log, "\n");
}

// Whether a server takes jobs, after that was changed.
void PrintAdmission(const Context& context, const Server& server, const v1::Capabilities& about) {
  if (context.json()) {
    JsonValue json{JsonValue::Object{}};
    json.Set("server", server.address);
    json.Set("cordoned", about.cordoned());
    json.Set("draining", about.draining());
    json.Set("active_jobs", static_cast<int64_t>(about.active_jobs()));
    context.out() << json.ToIndented() << "\n";
    return;
  }
  context.out() << absl::StrCat(server.address, " ",
                                about.draining()   ? "drains: it ends once its running jobs have"
                                : about.cordoned() ? "is cordoned: it takes no new jobs"
                                                   : "takes jobs",
                                "; ", about.active_jobs(),
                                about.active_jobs() == 1 ? " job has" : " jobs have",
                                " not ended\n");
}

}  // namespace

absl::StatusOr<int> RunDaemonStatus(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Running running, FindRunning(context));
  PrintStatus(context, running);
  return kExitOk;
}

absl::StatusOr<int> RunDaemonStop(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Running running, FindRunning(context));
  LY_RETURN_IF_ERROR(CheckIsIdle(context, running));
  LY_RETURN_IF_ERROR(StopLocalDaemon(running.place, running.about.pid(), kStopTimeoutS));
  JsonValue json{JsonValue::Object{}};
  json.Set("stopped", static_cast<int64_t>(running.about.pid()));
  context.out() << (context.json() ? json.ToIndented()
                                   : absl::StrCat("stopped ", running.about.pid()))
                << "\n";
  return kExitOk;
}

absl::StatusOr<int> RunDaemonRestart(const Context& context) {
  absl::StatusOr<Running> running = FindRunning(context);
  if (!running.ok() && !HasReason(running.status(), reason::kServerUnreachable)) {
    return running.status();
  }
  if (running.ok()) {
    LY_RETURN_IF_ERROR(CheckIsIdle(context, *running));
    LY_RETURN_IF_ERROR(StopLocalDaemon(running->place, running->about.pid(), kStopTimeoutS));
  }
  LY_ASSIGN_OR_RETURN(const LocalDaemonPlace place, FindLocalDaemonPlace());
  LY_RETURN_IF_ERROR(StartLocalDaemon(place));
  LY_ASSIGN_OR_RETURN(const Running started, FindRunning(context));
  PrintStatus(context, started);
  return kExitOk;
}

absl::StatusOr<int> RunDaemonLogs(const Context& context) {
  LY_RETURN_IF_ERROR(CheckIsLocal(context));
  LY_ASSIGN_OR_RETURN(const LocalDaemonPlace place, FindLocalDaemonPlace());
  const std::string text = TailOfFile(place.log_path(), kLogTailBytes);
  if (text.empty()) {
    return MakeError(
        reason::kServerUnreachable,
        absl::StrCat("no local daemon has logged anything in ", place.log_path()),
        {"libreyolo devices starts one", "change to the folder whose daemon you mean"});
  }
  if (context.json()) {
    JsonValue json{JsonValue::Object{}};
    json.Set("log", place.log_path());
    json.Set("text", text);
    context.out() << json.ToIndented() << "\n";
  } else {
    context.out() << text;
  }
  return kExitOk;
}

absl::StatusOr<int> RunDaemonCordon(const Context& context, bool cordoned) {
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  v1::SetCordonRequest request;
  request.set_cordoned(cordoned);
  v1::Capabilities about;
  LY_RETURN_IF_ERROR(Call(*v1::ServerService::NewStub(server.channel),
                          &v1::ServerService::Stub::SetCordon, request, about));
  PrintAdmission(context, server, about);
  return kExitOk;
}

absl::StatusOr<int> RunDaemonDrain(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  v1::Capabilities about;
  LY_RETURN_IF_ERROR(Call(*v1::ServerService::NewStub(server.channel),
                          &v1::ServerService::Stub::Drain, v1::DrainRequest(), about));
  PrintAdmission(context, server, about);
  return kExitOk;
}

absl::StatusOr<int> RunVersion(const Context& context) {
  // A named server is asked; of the local daemon only one that runs already.
  LY_ASSIGN_OR_RETURN(const ServerChoice choice, ChooseServer(context.line.options));
  const std::string& address = choice.address;
  std::string target;
  if (!address.empty()) {
    // Behind ssh nobody is asked: it could want a password for this.
    if (!absl::StartsWith(address, "ssh://")) target = address;
  } else if (const absl::StatusOr<LocalDaemonPlace> place = FindLocalDaemonPlace(); place.ok()) {
    if (IsListening(place->socket_path)) target = absl::StrCat("unix:", place->socket_path);
  }
  std::optional<v1::Capabilities> about;
  if (!target.empty()) {
    const auto stub = v1::ServerService::NewStub(MakeChannel(target, choice.security));
    grpc::ClientContext call;
    call.set_deadline(absl::ToChronoTime(absl::Now() + kVersionDeadline));
    v1::Capabilities answer;
    if (stub->GetCapabilities(&call, v1::GetCapabilitiesRequest(), &answer).ok()) about = answer;
  }
  if (context.json()) {
    JsonValue json{JsonValue::Object{}};
    json.Set("version", Version());
    json.Set("build", BuildId());
    json.Set("server_version", about.has_value() ? JsonValue(about->version()) : JsonValue());
    json.Set("server_build", about.has_value() ? JsonValue(about->build_id()) : JsonValue());
    context.out() << json.ToIndented() << "\n";
    return kExitOk;
  }
  context.out() << absl::StrCat("libreyolo ", Version(), " (build ", BuildId(), ")\n");
  if (about.has_value()) {
    context.out() << absl::StrCat("server    ", about->version(), " (build ", about->build_id(),
                                  ") at ", target, "\n");
  } else if (!target.empty()) {
    context.out() << absl::StrCat("server    ", address, " does not answer\n");
  }
  return kExitOk;
}

}  // namespace libreyolo::client
