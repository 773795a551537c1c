// Any words as the client's command line, one a line: nothing may escape the parser, and what it
// accepts must be readable by the commands, which ask for flags by name and type.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/flags.h"
#include "common/base/check.h"

using libreyolo::client::CommandLine;
using libreyolo::client::CommandSpec;
using libreyolo::client::FlagSpec;
using libreyolo::client::FlagType;

namespace {

void ReadFlag(const libreyolo::client::Arguments& arguments, const FlagSpec& flag) {
  const std::string text = arguments.Text(flag.name);
  switch (flag.type) {
    case FlagType::kInt:
      if (!text.empty()) (void)arguments.Int(flag.name);
      break;
    case FlagType::kNumber:
      if (!text.empty()) (void)arguments.Number(flag.name);
      break;
    case FlagType::kSwitch:
      LY_CHECK(text == "true" || text == "false" || text == "on" || text == "off")
          << flag.name << " is \"" << text << "\"";
      (void)arguments.Switch(flag.name);
      break;
    case FlagType::kText:
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> words = absl::StrSplit(text, '\n');
  const auto line = libreyolo::client::ParseCommandLine(words);
  if (!line.ok()) {
    LY_CHECK(!line.status().message().empty());
    return 0;
  }
  if (line->kind != CommandLine::Kind::kCommand) return 0;
  LY_CHECK(line->command != nullptr);
  const CommandSpec& command = *line->command;
  for (const FlagSpec& flag : command.flags) ReadFlag(line->arguments, flag);
  size_t required = 0;
  for (const auto& positional : command.positionals) required += positional.required ? 1 : 0;
  LY_CHECK(required == 0 || line->arguments.HasWord(required - 1)) << command.path;
  LY_CHECK(!line->arguments.HasWord(command.positionals.size())) << command.path;
  for (size_t i = 0; i < command.positionals.size(); ++i) {
    const std::string word = line->arguments.Word(i);
    LY_CHECK(word.size() < 2 || word[0] != '-') << "the flag " << word << " passed for an argument";
  }
  return 0;
}
