// The one table of commands and flags: the parser, --help and docs/cli.md are made from it.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace libreyolo::client {

enum class FlagType { kSwitch, kInt, kNumber, kText };

struct FlagSpec {
  const char* name;  // "--batch"
  FlagType type;
  const char* default_value;    // as typed; for a switch "on" or "off"; "" for none
  const char* value_name;       // "N"; "" for a switch
  const char* help;             // one sentence
  const char* short_name = "";  // "-o"
  bool has_no_form = false;     // a switch that also has --no-NAME
  bool is_list = false;         // may be given several times: its text is one value a line
};

struct PositionalSpec {
  const char* name;
  bool required;
  const char* help;
};

enum class CommandId {
  kProfileRun,
  kProfileInfer,
  kProfileSummary,
  kProfileGet,
  kProfilePhases,
  kProfileKernels,
  kProfileOps,
  kProfileCompare,
  kProfileWhatIf,
  kProfileTimeline,
  kProfileList,
  kProfileFetch,
  kProfilePin,
  kProfileUnpin,
  kJobsList,
  kJobsShow,
  kJobsWatch,
  kJobsCancel,
  kJobsLogs,
  kDevices,
  kDaemonStatus,
  kDaemonStop,
  kDaemonRestart,
  kDaemonLogs,
  kCompletion,
  kDoctor,
  kDaemonCordon,
  kDaemonUncordon,
  kDaemonDrain,
  kContextAdd,
  kContextUse,
  kContextList,
  kContextRemove,
};

struct CommandSpec {
  CommandId id;
  const char* path;     // "profile infer"
  const char* summary;  // one line
  std::vector<PositionalSpec> positionals;
  std::vector<FlagSpec> flags;
};

// A word that takes a subcommand.
struct GroupSpec {
  const char* name;  // "profile"
  const char* summary;
};

// In the order in which help shows them.
const std::vector<CommandSpec>& Commands();
const std::vector<GroupSpec>& Groups();

// Flags that every command takes, anywhere on the line.
const std::vector<FlagSpec>& CommonFlags();

// The command with this path, or null.
const CommandSpec* FindCommand(absl::string_view path);
bool IsGroup(absl::string_view word);

// The flag of `command` (or a common one) that `name` means, or null; "--no-half" finds "--half".
const FlagSpec* FindFlag(const CommandSpec& command, absl::string_view name);

}  // namespace libreyolo::client
