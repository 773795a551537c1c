#include "client/cli.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/exit_code.h"
#include "client/flags.h"
#include "client/help.h"
#include "client/render/table.h"
#include "client/rpc/channel.h"
#include "common/base/error.h"
#include "common/json/json_value.h"
#include "common/rpc/status_convert.h"

namespace libreyolo::client {
namespace {

// Under which the server's log knows the call; empty where no served daemon was asked.
std::string RequestIdIn(const ErrorDetail& detail) {
  for (const auto& [key, value] : detail.metadata) {
    if (key == rpc::kRequestIdFact) return value;
  }
  return "";
}

void PrintError(const absl::Status& status, bool json, std::ostream& err) {
  const ErrorDetail detail = GetErrorDetail(status);
  if (!json) {
    err << "error: " << Printable(detail.message) << "\n";
    for (const std::string& hint : detail.hints) err << "hint:  " << Printable(hint) << "\n";
    if (const std::string id = RequestIdIn(detail); !id.empty())
      err << "       request id " << id << ", for the server's operator\n";
    return;
  }
  JsonValue object{JsonValue::Object{}};
  object.Set("reason", detail.reason);
  object.Set("message", detail.message);
  object.Set("hints", JsonValue(JsonValue::Array(detail.hints.begin(), detail.hints.end())));
  if (const std::string id = RequestIdIn(detail); !id.empty()) object.Set(rpc::kRequestIdFact, id);
  err << object.ToCompact() << "\n";
}

absl::StatusOr<int> RunCommand(const Context& context) {
  switch (context.line.command->id) {
    case CommandId::kProfileRun:
      return RunTraining(context);
    case CommandId::kProfileInfer:
      return RunInfer(context);
    case CommandId::kProfileSummary:
      return RunSummary(context);
    case CommandId::kProfileGet:
      return RunGet(context);
    case CommandId::kProfilePhases:
      return RunPhases(context);
    case CommandId::kProfileKernels:
      return RunKernels(context);
    case CommandId::kProfileOps:
      return RunOps(context);
    case CommandId::kProfileCompare:
      return RunCompare(context);
    case CommandId::kProfileWhatIf:
      return RunWhatIf(context);
    case CommandId::kProfileTimeline:
      return RunTimeline(context);
    case CommandId::kProfileList:
      return RunProfileList(context);
    case CommandId::kProfileFetch:
      return RunProfileFetch(context);
    case CommandId::kProfilePin:
      return RunProfilePin(context, true);
    case CommandId::kProfileUnpin:
      return RunProfilePin(context, false);
    case CommandId::kJobsList:
      return RunJobsList(context);
    case CommandId::kJobsShow:
      return RunJobsShow(context);
    case CommandId::kJobsWatch:
      return RunJobsWatch(context);
    case CommandId::kJobsCancel:
      return RunJobsCancel(context);
    case CommandId::kJobsLogs:
      return RunJobsLogs(context);
    case CommandId::kDevices:
      return RunDevices(context);
    case CommandId::kDaemonStatus:
      return RunDaemonStatus(context);
    case CommandId::kDaemonStop:
      return RunDaemonStop(context);
    case CommandId::kDaemonRestart:
      return RunDaemonRestart(context);
    case CommandId::kDaemonLogs:
      return RunDaemonLogs(context);
    case CommandId::kCompletion:
      return RunCompletion(context);
    case CommandId::kDoctor:
      return RunDoctor(context);
    case CommandId::kDaemonCordon:
      return RunDaemonCordon(context, true);
    case CommandId::kDaemonUncordon:
      return RunDaemonCordon(context, false);
    case CommandId::kDaemonDrain:
      return RunDaemonDrain(context);
    case CommandId::kContextAdd:
      return RunContextAdd(context);
    case CommandId::kContextUse:
      return RunContextUse(context);
    case CommandId::kContextList:
      return RunContextList(context);
    case CommandId::kContextRemove:
      return RunContextRemove(context);
  }
  return MakeError(reason::kInternal, "a command without code");
}

absl::StatusOr<int> Dispatch(const CommandLine& line, const Streams& streams, const Deps& deps) {
  const Context context{line, streams, deps};
  switch (line.kind) {
    case CommandLine::Kind::kHelp:
      streams.out << HelpText(line);
      return kExitOk;
    case CommandLine::Kind::kDumpFlags:
      streams.out << DumpFlags() << "\n";
      return kExitOk;
    case CommandLine::Kind::kVersion:
      return RunVersion(context);
    case CommandLine::Kind::kCommand:
      break;
  }
  return RunCommand(context);
}

// A reader that has read enough (head, say) ends whoever writes to it, without a word.
void EndAsPipesDo() {
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) <= 0 || (out.revents & POLLERR) == 0) return;
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
}

// Passes text on as Printable has it, at each flush.
class PrintableBuffer : public std::stringbuf {
 public:
  explicit PrintableBuffer(std::streambuf* to) : std::stringbuf(std::ios::out), to_(to) {}
  int sync() override {
    const std::string text = Printable(str(), /*keep_newlines=*/true);
    str("");
    const auto size = static_cast<std::streamsize>(text.size());
    return to_->sputn(text.data(), size) == size ? to_->pubsync() : -1;
  }

 private:
  std::streambuf* const to_;
};

int ColumnsOf(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

void Context::Note(const std::string& text) const {
  if (!json()) err() << Printable(text, /*keep_newlines=*/true) << "\n" << std::flush;
}

int RunCli(const std::vector<std::string>& args, const Streams& streams, const Deps& deps) {
  // Not in the table: only the completion scripts call it.
  if (!args.empty() && args[0] == "__complete") {
    return RunComplete(std::vector<std::string>(args.begin() + 1, args.end()), streams, deps);
  }
  const absl::StatusOr<CommandLine> line = ParseCommandLine(args);
  if (!line.ok()) {
    PrintError(line.status(), AsksForJson(args), streams.err);
    return ExitCodeOf(line.status());
  }
  // Remembered for the versions in an error.
  std::optional<Server> server;
  Deps watched = deps;
  watched.connect = [&](const ServerOptions& typed, NeedDaemon need) -> absl::StatusOr<Server> {
    absl::StatusOr<Server> connected = deps.connect(typed, need);
    if (connected.ok()) server = *connected;
    return connected;
  };
  absl::StatusOr<int> code = Dispatch(*line, streams, watched);
  if (server.has_value() && HasReason(code.status(), reason::kUnimplemented)) {
    code = NameBothVersions(*server, code.status());
  }
  if (code.ok() && !streams.out.flush()) {
    EndAsPipesDo();
    code = MakeError(
        reason::kStoreFailed, "cannot write to standard output",
        {"make room where it is redirected to, or read on to its end: a pipe was closed"});
  }
  if (code.ok()) return *code;
  PrintError(code.status(), line->json, streams.err);
  return ExitCodeOf(code.status());
}

int RunCliOnProcess(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  // A connection that the other end has closed is an error with words, not the end.
  signal(SIGPIPE, SIG_IGN);
  Streams streams{std::cout, std::cerr};
  streams.out_is_terminal = ::isatty(STDOUT_FILENO) != 0;
  streams.err_is_terminal = ::isatty(STDERR_FILENO) != 0;
  streams.out_columns = ColumnsOf(STDOUT_FILENO);
  if (const int columns = ColumnsOf(STDERR_FILENO); columns > 0) streams.err_columns = columns;
  const SystemClock clock;
  const auto connect = [](const ServerOptions& typed, NeedDaemon need) -> absl::StatusOr<Server> {
    absl::StatusOr<Server> server = Connect(typed, need);
    // Never given back, so that gRPC's threads are not shut down one by one before the end.
    if (server.ok()) new std::shared_ptr<grpc::Channel>(server->channel);
    return server;
  };
  const Deps deps{connect,
                  [](const char* name) -> std::optional<std::string> {
                    const char* value = std::getenv(name);
                    if (value == nullptr) return std::nullopt;
                    return value;
                  },
                  clock};
  const std::vector<std::string> args(argv + 1, argv + argc);
  // Not in the table: only the other end of ssh:// calls it.
  if (!args.empty() && args[0] == "dial-stdio") {
    return DialStdio(std::vector<std::string>(args.begin() + 1, args.end()));
  }
  // A server's words reach a terminal as text alone. Nothing of ours on standard output is more.
  PrintableBuffer printable(std::cout.rdbuf());
  if (streams.out_is_terminal) std::cout.rdbuf(&printable);
  // TLS 1.3 and nothing older: of the older suites none that could be agreed on is left.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", 1);
  // What goes wrong is said once, by us; whoever hunts a fault may ask gRPC for more.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  const int code = RunCli(args, streams, deps);
  std::cout.flush();
  std::cerr.flush();
  // Nothing of value is left to be torn down, and gRPC's tearing down would take a third of a
  // reader's time.
  ::_exit(code);
}

}  // namespace libreyolo::client
