// The command line: which command, and its words and flags. Syntax only; ranges are the server's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/command_table.h"
#include "client/rpc/server_choice.h"

namespace libreyolo::client {

// The words and flags of one command. Names are those of the command table; asking for another is
// our bug.
class Arguments {
 public:
  Arguments() = default;
  Arguments(const CommandSpec& command, std::map<std::string, std::string> typed,
            std::vector<std::string> words)
      : command_(&command), typed_(std::move(typed)), words_(std::move(words)) {}

  bool IsTyped(const char* flag) const { return typed_.count(flag) > 0; }
  // What was typed, else the default; of a list one value a line.
  std::string Text(const char* flag) const;
  int32_t Int(const char* flag) const;
  double Number(const char* flag) const;
  bool Switch(const char* flag) const;

  // Positionals in order; "" for an optional one that is not there.
  std::string Word(size_t index) const { return index < words_.size() ? words_[index] : ""; }
  bool HasWord(size_t index) const { return index < words_.size(); }

 private:
  const CommandSpec* command_ = nullptr;
  std::map<std::string, std::string> typed_;  // flag -> checked text
  std::vector<std::string> words_;
};

struct CommandLine {
  enum class Kind { kCommand, kHelp, kVersion, kDumpFlags };
  Kind kind = Kind::kCommand;
  const CommandSpec* command = nullptr;  // kCommand; kHelp: the command, or null
  std::string group;                     // kHelp without a command: a group's name, or "" for all
  Arguments arguments;
  std::string server;     // --server, or ""
  ServerOptions options;  // the same with --ca and its like
  bool json = false;
};

// `args` without the program's name. ARGUMENT_INVALID names the word and the right form.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args);

// True when `args` ask for JSON, even if they do not parse: errors are JSON then.
bool AsksForJson(const std::vector<std::string>& args);

}  // namespace libreyolo::client
