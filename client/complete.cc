#include "client/complete.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/command_table.h"

namespace libreyolo::client {
namespace {

// How far a line is before the word that is being typed.
struct Position {
  std::string path;
  const CommandSpec* command = nullptr;
  const FlagSpec* flag = nullptr;  // its value comes next
  std::vector<std::string> positionals;
  std::vector<std::string> server_flags;
  bool is_lost = false;  // a word that no command has
};

const FlagSpec* FindCommonFlag(const std::string& name) {
  for (const FlagSpec& flag : CommonFlags()) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

Position WalkTo(const std::vector<std::string>& words) {
  Position at;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (absl::StartsWith(word, "-") && word.size() > 1) {
      const FlagSpec* common = FindCommonFlag(word);
      const FlagSpec* flag = at.command != nullptr ? FindFlag(*at.command, word) : common;
      if (flag == nullptr || flag->type == FlagType::kSwitch) continue;
      if (i + 2 == words.size()) {
        at.flag = flag;
        continue;
      }
      ++i;
      if (common != nullptr) at.server_flags.insert(at.server_flags.end(), {word, words[i]});
    } else if (at.command != nullptr) {
      at.positionals.push_back(word);
    } else {
      at.path = at.path.empty() ? word : absl::StrCat(at.path, " ", word);
      at.command = FindCommand(at.path);
      if (at.command == nullptr && !IsGroup(at.path)) at.is_lost = true;
    }
  }
  return at;
}

class Builder {
 public:
  explicit Builder(Completions& result) : result_(result) {}

  void Add(absl::string_view word, absl::string_view help) {
    if (!absl::StartsWith(word, result_.current)) return;
    const auto same = [&](const Candidate& other) { return other.word == word; };
    if (std::any_of(result_.candidates.begin(), result_.candidates.end(), same)) return;
    result_.candidates.push_back({std::string(word), std::string(help)});
  }

  // The words that can follow `path`.
  void AddCommands(const std::string& path) {
    const std::string prefix = path.empty() ? "" : absl::StrCat(path, " ");
    if (path.empty()) {
      for (const GroupSpec& group : Groups()) Add(group.name, group.summary);
    }
    for (const CommandSpec& command : Commands()) {
      const absl::string_view name = command.path;
      if (!absl::StartsWith(name, prefix)) continue;
      const absl::string_view rest = name.substr(prefix.size());
      if (!absl::StrContains(rest, ' ')) Add(rest, command.summary);
    }
  }

  void AddFlags(const CommandSpec* command) {
    if (command != nullptr) {
      for (const FlagSpec& flag : command->flags) AddFlag(flag);
    }
    for (const FlagSpec& flag : CommonFlags()) AddFlag(flag);
  }

  // "float16|bfloat16" stands for these words, "FILE" for what it says.
  void AddValues(const FlagSpec& flag, const std::vector<std::string>& positionals) {
    for (const absl::string_view kind : absl::StrSplit(flag.value_name, '|')) {
      if (kind == "FILE" || kind == "FOLDER") {
        result_.files = true;
      } else if (kind == "DEVICE") {
        result_.live = LiveWords::kDevices;
        Add("cpu", "");
      } else if (kind == "PHASE") {
        result_.live = LiveWords::kPhases;
      } else if (kind == "CONDITION") {
        result_.live = LiveWords::kMetrics;
      } else if (!kind.empty() && absl::ascii_islower(static_cast<unsigned char>(kind[0]))) {
        Add(kind, "");
      }
    }
    if (absl::string_view(flag.name) == "--weights") Add("random", "initialised weights");
    if (!positionals.empty()) result_.trace = positionals[0];
  }

  void AddPositional(const CommandSpec& command, const std::vector<std::string>& positionals) {
    if (positionals.size() >= command.positionals.size()) return AddFlags(&command);
    const absl::string_view name = command.positionals[positionals.size()].name;
    if (name == "shell") {
      for (const char* shell : {"bash", "zsh", "fish"}) Add(shell, "");
    } else if (name == "job") {
      result_.live = LiveWords::kJobs;
    } else if (name == "field") {
      result_.live = LiveWords::kMetrics;
      result_.trace = positionals[0];
    } else if (name == "trace" || name == "before" || name == "after" || name == "path") {
      result_.live = LiveWords::kTraces;
      result_.files = name != "path";
    } else if (name == "source" || name == "data") {
      result_.files = true;
    }
  }

 private:
  void AddFlag(const FlagSpec& flag) {
    Add(flag.name, flag.help);
    if (flag.has_no_form) Add(absl::StrCat("--no-", flag.name + 2), flag.help);
  }

  Completions& result_;
};

}  // namespace

Completions Complete(const std::vector<std::string>& words) {
  Completions result;
  if (!words.empty()) result.current = words.back();
  const Position at = WalkTo(words);
  result.server_flags = at.server_flags;
  Builder builder(result);
  if (at.is_lost) return result;
  if (at.flag != nullptr) {
    builder.AddValues(*at.flag, at.positionals);
  } else if (absl::StartsWith(result.current, "-")) {
    builder.AddFlags(at.command);
  } else if (at.command == nullptr) {
    builder.AddCommands(at.path);
  } else {
    builder.AddPositional(*at.command, at.positionals);
  }
  return result;
}

}  // namespace libreyolo::client
