// What every command is handed, and the commands themselves.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "client/flags.h"
#include "client/rpc/channel.h"
#include "common/base/clock.h"

namespace libreyolo::client {

struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  int out_columns = 0;  // 0: not known, nothing is cut
  int err_columns = 80;
};

// The world outside, so that tests can hand in their own.
struct Deps {
  std::function<absl::StatusOr<Server>(const ServerOptions& typed, NeedDaemon need)> connect;
  // A variable of the environment; none when it is not set.
  std::function<std::optional<std::string>(const char* name)> env;
  const Clock& clock;
};

// Outlives the command.
struct Context {
  const CommandLine& line;
  const Streams& streams;
  const Deps& deps;

  const Arguments& args() const { return line.arguments; }
  bool json() const { return line.json; }
  std::ostream& out() const { return streams.out; }
  std::ostream& err() const { return streams.err; }
  absl::StatusOr<Server> Connect(NeedDaemon need) const { return deps.connect(line.options, need); }
  // A remark on stderr; nothing under --json.
  void Note(const std::string& text) const;
};

// Each returns the exit code, or the error that decides it. Results go to stdout only when the
// command succeeds.
absl::StatusOr<int> RunInfer(const Context& context);
absl::StatusOr<int> RunTraining(const Context& context);
absl::StatusOr<int> RunSummary(const Context& context);
absl::StatusOr<int> RunGet(const Context& context);
absl::StatusOr<int> RunPhases(const Context& context);
absl::StatusOr<int> RunKernels(const Context& context);
absl::StatusOr<int> RunOps(const Context& context);
absl::StatusOr<int> RunCompare(const Context& context);
absl::StatusOr<int> RunWhatIf(const Context& context);
absl::StatusOr<int> RunTimeline(const Context& context);
absl::StatusOr<int> RunProfileList(const Context& context);
absl::StatusOr<int> RunProfileFetch(const Context& context);
absl::StatusOr<int> RunProfilePin(const Context& context, bool pinned);
absl::StatusOr<int> RunJobsList(const Context& context);
absl::StatusOr<int> RunJobsShow(const Context& context);
absl::StatusOr<int> RunJobsWatch(const Context& context);
absl::StatusOr<int> RunJobsCancel(const Context& context);
absl::StatusOr<int> RunJobsLogs(const Context& context);
absl::StatusOr<int> RunDevices(const Context& context);
absl::StatusOr<int> RunDaemonStatus(const Context& context);
absl::StatusOr<int> RunDaemonStop(const Context& context);
absl::StatusOr<int> RunDaemonRestart(const Context& context);
absl::StatusOr<int> RunDaemonLogs(const Context& context);
absl::StatusOr<int> RunDaemonCordon(const Context& context, bool cordoned);
absl::StatusOr<int> RunDaemonDrain(const Context& context);
absl::StatusOr<int> RunContextAdd(const Context& context);
absl::StatusOr<int> RunContextUse(const Context& context);
absl::StatusOr<int> RunContextList(const Context& context);
absl::StatusOr<int> RunContextRemove(const Context& context);
// Never starts a daemon.
absl::StatusOr<int> RunVersion(const Context& context);
absl::StatusOr<int> RunCompletion(const Context& context);
absl::StatusOr<int> RunDoctor(const Context& context);
// Prints what can stand for the last of `words`, one a line with a tab and a remark, for the
// completion scripts; ":files" asks them for paths too. Never fails: an error is no candidate.
int RunComplete(const std::vector<std::string>& words, const Streams& streams, const Deps& deps);

}  // namespace libreyolo::client
