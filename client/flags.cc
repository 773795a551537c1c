#include "client/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {
namespace {

using Words = std::vector<std::string>;

std::string Quoted(absl::string_view word) { return absl::StrCat("\"", word, "\""); }

std::string HelpHint(const CommandSpec* command) {
  return absl::StrCat("libreyolo ", command == nullptr ? "" : command->path,
                      command == nullptr ? "--help" : " --help", " lists what there is");
}

absl::Status UsageError(const CommandSpec* command, absl::string_view message) {
  return MakeError(reason::kArgumentInvalid, message, {HelpHint(command)});
}

bool LooksLikeFlag(absl::string_view word) { return word.size() > 1 && word[0] == '-'; }

// "key=value" with a plain word before the sign; a path that holds a slash before it is a path.
bool LooksLikeAssignment(absl::string_view word) {
  const size_t sign = word.find('=');
  if (sign == absl::string_view::npos || sign == 0) return false;
  for (const char c : word.substr(0, sign)) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') return false;
  }
  return true;
}

absl::Status AssignmentError(const CommandSpec* command, absl::string_view word) {
  const size_t sign = word.find('=');
  const std::string key = absl::StrReplaceAll(word.substr(0, sign), {{"_", "-"}});
  const absl::string_view value = word.substr(sign + 1);
  std::string form = absl::StrCat("--", key, " ", value);
  if (command != nullptr) {
    for (const PositionalSpec& positional : command->positionals) {
      if (key == positional.name) {
        form = absl::StrCat("libreyolo ", command->path, " ", value);
      }
    }
    const FlagSpec* flag = FindFlag(*command, absl::StrCat("--", key));
    if (flag == nullptr && form.substr(0, 2) == "--") form.clear();  // no flag is called so
    if (flag != nullptr && flag->type == FlagType::kSwitch) {
      const std::string lower = absl::AsciiStrToLower(value);
      const bool off = lower == "false" || lower == "0" || lower == "off" || lower == "no";
      form = absl::StrCat(off && flag->has_no_form ? "--no-" : "--", key);
    }
  }
  std::vector<std::string> hints = {HelpHint(command)};
  if (!form.empty()) hints.insert(hints.begin(), absl::StrCat("write ", form));
  if (command != nullptr && !command->positionals.empty()) {
    hints.insert(hints.end() - 1, absl::StrCat("a file of that name is ./", word));
  }
  return MakeError(reason::kArgumentInvalid,
                   absl::StrCat("there is no key=value form: ", Quoted(word)), std::move(hints));
}

absl::Status CheckPositional(const CommandSpec* command, const std::string& word) {
  if (LooksLikeAssignment(word)) return AssignmentError(command, word);
  return absl::OkStatus();
}

// The name part of "--batch=4", and whether there was a value.
std::pair<std::string, bool> SplitFlag(const std::string& word) {
  const size_t sign = word.find('=');
  if (sign == std::string::npos) return {word, false};
  return {word.substr(0, sign), true};
}

// What CLI11 would take without a word and we refuse: values of switches, a flag as another flag's
// value, key=value words, unknown flags.
absl::Status CheckWords(const CommandSpec& command, const Words& words) {
  bool only_positionals = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!only_positionals && word == "--") {
      only_positionals = true;
      continue;
    }
    if (!LooksLikeFlag(word)) {
      LY_RETURN_IF_ERROR(CheckPositional(&command, word));
      continue;
    }
    if (only_positionals) {
      return MakeError(reason::kArgumentInvalid,
                       absl::StrCat("an argument cannot start with -: ", Quoted(word)),
                       {absl::StrCat("a file of that name is ./", word)});
    }
    const auto [name, has_value] = SplitFlag(word);
    const FlagSpec* flag = FindFlag(command, name);
    if (flag == nullptr) {
      return UsageError(&command, absl::StrCat("libreyolo ", command.path, " has no flag ", name));
    }
    if (flag->type == FlagType::kSwitch) {
      if (!has_value) continue;
      return UsageError(&command, absl::StrCat(name, " takes no value: ", Quoted(word)));
    }
    if (has_value) continue;
    const bool next_is_flag = i + 1 < words.size() && absl::StartsWith(words[i + 1], "--");
    if (i + 1 == words.size() || next_is_flag) {
      return UsageError(&command,
                        absl::StrCat(name, " needs a value: ", name, " ", flag->value_name));
    }
    ++i;
  }
  return absl::OkStatus();
}

absl::Status CheckValue(const FlagSpec& flag, const std::string& text) {
  int32_t whole = 0;
  double number = 0;
  const std::string hint = absl::StrCat(flag.name, " ", flag.value_name, ": ", flag.help);
  if (flag.type == FlagType::kInt && !absl::SimpleAtoi(text, &whole)) {
    return MakeError(
        reason::kArgumentInvalid,
        absl::StrCat(flag.name, " takes a whole number of at most 32 bits, not ", Quoted(text)),
        {hint});
  }
  if (flag.type == FlagType::kNumber &&
      (!absl::SimpleAtod(text, &number) || !std::isfinite(number))) {
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat(flag.name, " takes a number, not ", Quoted(text)), {hint});
  }
  return absl::OkStatus();
}

std::string OptionNames(const FlagSpec& flag) {
  std::string names = flag.name;
  if (flag.short_name[0] != '\0') absl::StrAppend(&names, ",", flag.short_name);
  if (flag.has_no_form) absl::StrAppend(&names, ",!--no-", flag.name + 2);
  return names;
}

struct Parsed {
  std::map<std::string, std::string> typed;
  Words words;
};

// CLI11 does the walk; it is handed words that CheckWords() let through.
absl::StatusOr<Parsed> ParseWords(const CommandSpec& command, Words words) {
  CLI::App app;
  app.set_help_flag();
  std::vector<std::pair<const FlagSpec*, CLI::Option*>> options;
  for (const std::vector<FlagSpec>* flags : {&command.flags, &CommonFlags()}) {
    for (const FlagSpec& flag : *flags) {
      CLI::Option* option = flag.type == FlagType::kSwitch ? app.add_flag(OptionNames(flag))
                                                           : app.add_option(OptionNames(flag));
      option->multi_option_policy(flag.is_list ? CLI::MultiOptionPolicy::TakeAll
                                               : CLI::MultiOptionPolicy::TakeLast);
      options.emplace_back(&flag, option);
    }
  }
  app.allow_extras();  // positionals come back as they are, in order
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return UsageError(&command, error.what());
  }
  Parsed parsed;
  for (const auto& [flag, option] : options) {
    if (option->count() == 0) continue;
    const std::string text = option->results().back();
    LY_RETURN_IF_ERROR(CheckValue(*flag, text));
    parsed.typed[flag->name] = flag->is_list ? absl::StrJoin(option->results(), "\n") : text;
  }
  for (std::string& word : app.remaining()) {
    if (word != "--") parsed.words.push_back(std::move(word));
  }
  return parsed;
}

absl::Status CheckCount(const CommandSpec& command, const Words& words) {
  for (size_t i = words.size(); i < command.positionals.size(); ++i) {
    if (!command.positionals[i].required) break;
    return UsageError(
        &command, absl::StrCat("libreyolo ", command.path, " needs <", command.positionals[i].name,
                               ">: ", command.positionals[i].help));
  }
  if (words.size() > command.positionals.size()) {
    return UsageError(
        &command, absl::StrCat("unexpected argument ", Quoted(words[command.positionals.size()])));
  }
  return absl::OkStatus();
}

// The words that name the command, taken from the front; common flags may stand between them.
struct Head {
  std::string path;
  const CommandSpec* command = nullptr;
  Words rest;  // everything else, in order
  bool help = false;
  bool version = false;
  bool dump_flags = false;
};

const FlagSpec* FindCommonFlag(const std::string& name) {
  for (const FlagSpec& flag : CommonFlags()) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

absl::StatusOr<Head> ReadHead(const Words& args) {
  Head head;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--help" || word == "-h") {
      head.help = true;
    } else if (head.command != nullptr) {
      head.rest.push_back(word);
    } else if (word == "--version") {
      head.version = true;
    } else if (word == "--dump-flags") {
      head.dump_flags = true;
    } else if (const FlagSpec* flag = FindCommonFlag(SplitFlag(word).first); flag != nullptr) {
      head.rest.push_back(word);
      if (flag->type == FlagType::kSwitch || SplitFlag(word).second) continue;
      if (i + 1 == args.size()) {
        return UsageError(nullptr,
                          absl::StrCat(word, " needs a value: ", word, " ", flag->value_name));
      }
      head.rest.push_back(args[++i]);
    } else if (LooksLikeFlag(word)) {
      return UsageError(nullptr, absl::StrCat("flag ", word, " before the command"));
    } else {
      if (LooksLikeAssignment(word)) return AssignmentError(nullptr, word);
      const std::string path = head.path.empty() ? word : absl::StrCat(head.path, " ", word);
      head.command = FindCommand(path);
      if (head.command == nullptr && !IsGroup(path)) {
        return MakeError(
            reason::kArgumentInvalid, absl::StrCat("there is no command libreyolo ", path),
            {head.path.empty()
                 ? std::string("libreyolo --help lists what there is")
                 : absl::StrCat("libreyolo ", head.path, " --help lists what there is")});
      }
      head.path = path;
    }
  }
  return head;
}

}  // namespace

std::string Arguments::Text(const char* flag) const {
  const auto it = typed_.find(flag);
  if (it != typed_.end()) return it->second;
  const FlagSpec* spec = FindFlag(*command_, flag);
  LY_CHECK(spec != nullptr) << flag;
  return spec->default_value;
}

int32_t Arguments::Int(const char* flag) const {
  int32_t value = 0;
  LY_CHECK(absl::SimpleAtoi(Text(flag), &value)) << flag;
  return value;
}

double Arguments::Number(const char* flag) const {
  double value = 0;
  LY_CHECK(absl::SimpleAtod(Text(flag), &value)) << flag;
  return value;
}

bool Arguments::Switch(const char* flag) const {
  const std::string text = Text(flag);
  return text == "true" || text == "on";
}

bool AsksForJson(const std::vector<std::string>& args) {
  for (const std::string& word : args) {
    if (word == "--") return false;
    if (word == "--json") return true;
  }
  return false;
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args) {
  LY_ASSIGN_OR_RETURN(const Head head, ReadHead(args));
  CommandLine line;
  line.command = head.command;
  line.json = AsksForJson(args);
  if (head.dump_flags) {
    line.kind = CommandLine::Kind::kDumpFlags;
    return line;
  }
  if (head.help || (head.command == nullptr && !head.version)) {
    line.kind = CommandLine::Kind::kHelp;
    if (head.command == nullptr) line.group = head.path;
    return line;
  }
  static const CommandSpec kNoCommand = {CommandId::kDevices, "", "", {}, {}};
  const CommandSpec& command = head.command == nullptr ? kNoCommand : *head.command;
  LY_RETURN_IF_ERROR(CheckWords(command, head.rest));
  LY_ASSIGN_OR_RETURN(Parsed parsed, ParseWords(command, head.rest));
  line.server = parsed.typed.count("--server") > 0 ? parsed.typed["--server"] : "";
  line.options = {line.server, parsed.typed["--ca"], parsed.typed["--token-file"],
                  parsed.typed["--cert"], parsed.typed["--key"]};
  for (const char* flag : {"--ca", "--token-file", "--cert", "--key"}) {
    if (parsed.typed[flag].empty()) parsed.typed.erase(flag);
  }
  line.json = parsed.typed.count("--json") > 0;
  if (head.version) {
    line.kind = CommandLine::Kind::kVersion;
    return line;
  }
  LY_RETURN_IF_ERROR(CheckCount(command, parsed.words));
  line.arguments = Arguments(command, std::move(parsed.typed), std::move(parsed.words));
  return line;
}

}  // namespace libreyolo::client
