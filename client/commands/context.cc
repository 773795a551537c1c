#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/render/table.h"
#include "client/rpc/server_choice.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"

namespace libreyolo::client {
namespace {

absl::Status NoContext(const std::string& name) {
  return MakeError(reason::kArgumentInvalid, absl::StrCat("there is no context \"", name, "\""),
                   {"libreyolo context list shows them"});
}

absl::Status CheckName(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (plain && !name.empty() && name.size() <= 64 && name != kLocalContext) return absl::OkStatus();
  return MakeError(reason::kArgumentInvalid,
                   absl::StrCat("\"", name, "\" is no name for a context"),
                   {"names have up to 64 letters, digits, dots, dashes and underscores",
                    absl::StrCat("\"", kLocalContext, "\" is the local daemon")});
}

// The context counts from every folder.
std::string Absolute(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

absl::StatusOr<int> RunContextAdd(const Context& context) {
  Contexts::Named added{context.args().Word(0), context.line.options};
  LY_RETURN_IF_ERROR(CheckName(added.name));
  if (added.options.server.empty()) {
    return MakeError(reason::kArgumentInvalid, "a context needs the server's address",
                     {absl::StrCat("libreyolo context add ", added.name, " --server ADDRESS")});
  }
  LY_RETURN_IF_ERROR(ParseAddress(added.options.server).status());
  for (std::string* path :
       {&added.options.ca, &added.options.token_file, &added.options.cert, &added.options.key}) {
    *path = Absolute(*path);
  }
  LY_ASSIGN_OR_RETURN(Contexts contexts, LoadContexts());
  const auto same = [&](const Contexts::Named& named) { return named.name == added.name; };
  const auto known = std::find_if(contexts.all.begin(), contexts.all.end(), same);
  if (known != contexts.all.end()) {
    *known = added;
  } else {
    contexts.all.push_back(added);
  }
  LY_RETURN_IF_ERROR(SaveContexts(contexts));
  context.Note(absl::StrCat("libreyolo context use ", added.name, " takes it"));
  return kExitOk;
}

absl::StatusOr<int> RunContextUse(const Context& context) {
  const std::string name = context.args().Word(0);
  LY_ASSIGN_OR_RETURN(Contexts contexts, LoadContexts());
  if (name != kLocalContext && contexts.Find(name) == nullptr) return NoContext(name);
  contexts.current = name == kLocalContext ? "" : name;
  LY_RETURN_IF_ERROR(SaveContexts(contexts));
  return kExitOk;
}

absl::StatusOr<int> RunContextList(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Contexts contexts, LoadContexts());
  if (context.json()) {
    JsonValue::Array items;
    for (const Contexts::Named& named : contexts.all) {
      JsonValue& item = items.emplace_back(JsonValue::Object{});
      item.Set("name", named.name);
      item.Set("in_use", named.name == contexts.current);
      item.Set("server", named.options.server);
      item.Set("ca", named.options.ca);
      item.Set("token_file", named.options.token_file);
      item.Set("cert", named.options.cert);
      item.Set("key", named.options.key);
    }
    JsonValue json{JsonValue::Object{}};
    json.Set("contexts", JsonValue(std::move(items)));
    context.out() << json.ToIndented() << "\n";
    return kExitOk;
  }
  Table table({{""}, {"context"}, {"server"}, {"token"}, {"authority"}});
  table.Add({contexts.current.empty() ? "*" : "", kLocalContext, "the local daemon", "", ""});
  for (const Contexts::Named& named : contexts.all) {
    table.Add({named.name == contexts.current ? "*" : "", named.name, named.options.server,
               named.options.token_file, named.options.ca});
  }
  context.out() << table.ToText();
  return kExitOk;
}

absl::StatusOr<int> RunContextRemove(const Context& context) {
  const std::string name = context.args().Word(0);
  LY_ASSIGN_OR_RETURN(Contexts contexts, LoadContexts());
  if (contexts.Find(name) == nullptr) return NoContext(name);
  contexts.all.erase(
      std::remove_if(contexts.all.begin(), contexts.all.end(),
                     [&](const Contexts::Named& named) { return named.name == name; }),
      contexts.all.end());
  if (contexts.current == name) contexts.current = "";
  LY_RETURN_IF_ERROR(SaveContexts(contexts));
  return kExitOk;
}

}  // namespace libreyolo::client
