#include "client/help.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/json/json_value.h"

namespace libreyolo::client {
namespace {

std::string FlagNames(const FlagSpec& flag) {
  std::string text = flag.name;
  if (flag.short_name[0] != '\0') text = absl::StrCat(flag.short_name, ", ", text);
  if (flag.has_no_form) absl::StrAppend(&text, " / --no-", flag.name + 2);
  if (flag.type != FlagType::kSwitch) absl::StrAppend(&text, " ", flag.value_name);
  return text;
}

std::string Default(const FlagSpec& flag) {
  const bool plain_switch = flag.type == FlagType::kSwitch && !flag.has_no_form;
  if (flag.default_value[0] == '\0' || plain_switch) return "";
  return absl::StrCat(" [", flag.default_value, "]");
}

std::string Rows(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, std::min<size_t>(row.first.size(), 30));
  std::string text;
  for (const auto& [left, right] : rows) {
    absl::StrAppendFormat(&text, "  %-*s  %s\n", static_cast<int>(width), left, right);
  }
  return text;
}

std::string CommandRows(absl::string_view group) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const CommandSpec& command : Commands()) {
    const absl::string_view path = command.path;
    const size_t space = path.find(' ');
    const bool in_group = space != absl::string_view::npos && path.substr(0, space) == group;
    if (group.empty() ? space != absl::string_view::npos : !in_group) continue;
    rows.emplace_back(std::string(group.empty() ? path : path.substr(space + 1)), command.summary);
  }
  return Rows(rows);
}

std::string CommonRows() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const FlagSpec& flag : CommonFlags()) {
    rows.emplace_back(FlagNames(flag), absl::StrCat(flag.help, Default(flag)));
  }
  return Rows(rows);
}

std::string GroupHelp(const GroupSpec& group) {
  return absl::StrCat(
      "Usage: libreyolo ", group.name, " <command> [<argument>] [--flag value ...]\n\n",
      group.summary, ".\n\nCommands:\n", CommandRows(group.name), "\nFlags of every command:\n",
      CommonRows(), "\nlibreyolo ", group.name, " <command> --help shows a command's own.\n");
}

std::string CommandHelp(const CommandSpec& command) {
  std::string usage = absl::StrCat("Usage: libreyolo ", command.path);
  std::vector<std::pair<std::string, std::string>> words;
  for (const PositionalSpec& positional : command.positionals) {
    const std::string shown = positional.required ? absl::StrCat("<", positional.name, ">")
                                                  : absl::StrCat("[<", positional.name, ">]");
    absl::StrAppend(&usage, " ", shown);
    words.emplace_back(absl::StrCat("<", positional.name, ">"), positional.help);
  }
  std::vector<std::pair<std::string, std::string>> flags;
  for (const FlagSpec& flag : command.flags) {
    flags.emplace_back(FlagNames(flag), absl::StrCat(flag.help, Default(flag)));
  }
  std::string text = absl::StrCat(usage, " [--flag value ...]\n\n", command.summary, ".\n");
  if (!words.empty()) absl::StrAppend(&text, "\nArguments:\n", Rows(words));
  if (!flags.empty()) absl::StrAppend(&text, "\nFlags:\n", Rows(flags));
  absl::StrAppend(&text, "\nFlags of every command:\n", CommonRows());
  return text;
}

std::string AllHelp() {
  std::string text =
      "Usage: libreyolo <command> [<argument>] [--flag value ...]\n\n"
      "Profiles YOLO training and inference on this machine or on a server.\n";
  for (const GroupSpec& group : Groups()) {
    absl::StrAppend(&text, "\nlibreyolo ", group.name, " <command>: ", group.summary, "\n",
                    CommandRows(group.name));
  }
  absl::StrAppend(&text, "\nlibreyolo <command>:\n", CommandRows(""));
  absl::StrAppend(&text, "\nFlags of every command:\n", CommonRows(),
                  "  --version  the version of the client, and of a server that answers\n");
  return text;
}

const char* TypeName(FlagType type) {
  switch (type) {
    case FlagType::kSwitch:
      return "switch";
    case FlagType::kInt:
      return "integer";
    case FlagType::kNumber:
      return "number";
    case FlagType::kText:
      break;
  }
  return "text";
}

JsonValue FlagsToJson(const std::vector<FlagSpec>& flags) {
  JsonValue::Array items;
  for (const FlagSpec& flag : flags) {
    JsonValue& item = items.emplace_back(JsonValue::Object{});
    item.Set("names", FlagNames(flag));
    item.Set("type", TypeName(flag.type));
    item.Set("default", flag.default_value);
    item.Set("help", flag.help);
  }
  return JsonValue(std::move(items));
}

}  // namespace

std::string HelpText(const CommandLine& line) {
  if (line.command != nullptr) return CommandHelp(*line.command);
  for (const GroupSpec& group : Groups()) {
    if (line.group == group.name) return GroupHelp(group);
  }
  return AllHelp();
}

std::string DumpFlags() {
  JsonValue::Array commands;
  for (const CommandSpec& command : Commands()) {
    JsonValue& item = commands.emplace_back(JsonValue::Object{});
    item.Set("path", command.path);
    item.Set("summary", command.summary);
    JsonValue::Array positionals;
    for (const PositionalSpec& positional : command.positionals) {
      JsonValue& word = positionals.emplace_back(JsonValue::Object{});
      word.Set("name", positional.name);
      word.Set("required", positional.required);
      word.Set("help", positional.help);
    }
    item.Set("positionals", JsonValue(std::move(positionals)));
    item.Set("flags", FlagsToJson(command.flags));
  }
  JsonValue json{JsonValue::Object{}};
  json.Set("common_flags", FlagsToJson(CommonFlags()));
  json.Set("commands", JsonValue(std::move(commands)));
  return json.ToIndented();
}

}  // namespace libreyolo::client
