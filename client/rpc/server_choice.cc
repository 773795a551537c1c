#include "client/rpc/server_choice.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>

#include <cstdlib>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/rpc/channel.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"

namespace libreyolo::client {
namespace {

constexpr int64_t kMaxPemBytes = 1 << 20;
constexpr int64_t kMaxTokenBytes = 4096;
constexpr int64_t kMaxContextsBytes = 1 << 20;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FirstOf(const std::string& a, const std::string& b, const std::string& c) {
  return !a.empty() ? a : !b.empty() ? b : c;
}

absl::StatusOr<std::string> ReadNamed(const char* flag, const std::string& path, int64_t limit) {
  if (path.empty()) return std::string();
  absl::StatusOr<std::string> text = ReadFile(path, limit);
  if (text.ok()) return text;
  return MakeError(reason::kArgumentInvalid, absl::StrCat(flag, ": ", text.status().message()),
                   {"name a file that this user can read"});
}

absl::StatusOr<std::string> CheckToken(absl::string_view text, absl::string_view where) {
  const std::string token(absl::StripAsciiWhitespace(text));
  for (const char c : token) {
    // What else could not stand in a header.
    if (c <= ' ' || c > '~') {
      return MakeError(
          reason::kArgumentInvalid,
          absl::StrCat("the token in ", where, " is not one word of plain ASCII"),
          {"the file holds the token alone: the word that the server's admin gave you"});
    }
  }
  if (token.empty()) {
    return MakeError(reason::kArgumentInvalid, absl::StrCat("there is no token in ", where),
                     {"put the token that the server's admin gave you there"});
  }
  return token;
}

absl::StatusOr<ChannelSecurity> ReadSecurity(const ServerOptions& options, bool off_loopback) {
  ChannelSecurity security;
  if (options.cert.empty() != options.key.empty()) {
    return MakeError(reason::kArgumentConflict, "--cert and --key go together",
                     {"give the certificate's file and its private key's, or neither"});
  }
  LY_ASSIGN_OR_RETURN(security.ca_pem, ReadNamed("--ca", options.ca, kMaxPemBytes));
  LY_ASSIGN_OR_RETURN(security.cert_pem, ReadNamed("--cert", options.cert, kMaxPemBytes));
  LY_ASSIGN_OR_RETURN(security.key_pem, ReadNamed("--key", options.key, kMaxPemBytes));
  security.tls = off_loopback || !options.ca.empty() || !options.cert.empty();
  if (!options.token_file.empty()) {
    LY_ASSIGN_OR_RETURN(const std::string text,
                        ReadNamed("--token-file", options.token_file, kMaxTokenBytes));
    LY_ASSIGN_OR_RETURN(security.token, CheckToken(text, options.token_file));
  }
  return security;
}

absl::StatusOr<std::string> ContextsPath() {
  LY_ASSIGN_OR_RETURN(const std::string folder, ConfigFolder());
  return folder + "/contexts.json";
}

constexpr std::pair<const char*, std::string ServerOptions::*> kFields[] = {
    {"server", &ServerOptions::server},
    {"ca", &ServerOptions::ca},
    {"token_file", &ServerOptions::token_file},
    {"cert", &ServerOptions::cert},
    {"key", &ServerOptions::key},
};

}  // namespace

absl::StatusOr<std::string> ConfigFolder() {
  std::string folder = Environment("XDG_CONFIG_HOME");
  if (!absl::StartsWith(folder, "/")) {
    const std::string home = Environment("HOME");
    if (!absl::StartsWith(home, "/")) {
      return MakeError(reason::kArgumentInvalid, "there is no place for settings: HOME is not set",
                       {"set HOME or XDG_CONFIG_HOME"});
    }
    folder = home + "/.config";
  }
  return folder + "/libreyolo";
}

const Contexts::Named* Contexts::Find(absl::string_view name) const {
  for (const Named& named : all) {
    if (named.name == name) return &named;
  }
  return nullptr;
}

absl::StatusOr<Contexts> LoadContexts() {
  Contexts contexts;
  const absl::StatusOr<std::string> path = ContextsPath();
  // Without a home there are no contexts, which is no reason to refuse a command.
  if (!path.ok()) return contexts;
  const absl::StatusOr<std::string> text = ReadFile(*path, kMaxContextsBytes);
  if (absl::IsNotFound(text.status())) return contexts;
  const auto refuse = [&](absl::string_view why) {
    return MakeError(reason::kArgumentInvalid, absl::StrCat("the contexts in ", *path, ": ", why),
                     {"correct or remove that file", "name the server with --server ADDRESS"});
  };
  if (!text.ok()) return refuse(text.status().message());
  // Protobuf's reader of JSON: it is linked anyway, where simdjson would be one more library to
  // load at each start.
  google::protobuf::Struct json;
  const auto read = google::protobuf::util::JsonStringToMessage(*text, &json);
  if (!read.ok()) return refuse(read.ToString());
  const auto& members = json.fields();
  const auto current = members.find("current");
  if (current != members.end()) contexts.current = current->second.string_value();
  const auto all = members.find("contexts");
  if (all == members.end() || !all->second.has_struct_value()) {
    return refuse("it holds no \"contexts\"");
  }
  for (const auto& [name, value] : all->second.struct_value().fields()) {
    Contexts::Named named{name, {}};
    for (const auto& [key, field] : kFields) {
      const auto text_of = value.struct_value().fields().find(key);
      if (text_of == value.struct_value().fields().end()) continue;
      named.options.*field = text_of->second.string_value();
    }
    contexts.all.push_back(std::move(named));
  }
  absl::c_sort(contexts.all,
               [](const Contexts::Named& x, const Contexts::Named& y) { return x.name < y.name; });
  return contexts;
}

absl::Status SaveContexts(const Contexts& contexts) {
  LY_ASSIGN_OR_RETURN(const std::string path, ContextsPath());
  JsonValue all{JsonValue::Object{}};
  for (const Contexts::Named& named : contexts.all) {
    JsonValue item{JsonValue::Object{}};
    for (const auto& [key, field] : kFields) {
      if (!(named.options.*field).empty()) item.Set(key, named.options.*field);
    }
    all.Set(named.name, std::move(item));
  }
  JsonValue json{JsonValue::Object{}};
  json.Set("current", contexts.current);
  json.Set("contexts", std::move(all));
  LY_RETURN_IF_ERROR(MakeDirectories(path.substr(0, path.rfind('/')), 0700));
  // The temporary file beside it must never be readable for others either.
  const mode_t before = umask(0077);
  const absl::Status written = WriteFileAtomically(path, json.ToIndented() + "\n");
  umask(before);
  return written;
}

absl::StatusOr<ServerChoice> ChooseServer(const ServerOptions& typed) {
  ServerOptions kept;
  std::string address = FirstOf(typed.server, Environment("LIBREYOLO_SERVER"), "");
  if (address.empty()) {
    LY_ASSIGN_OR_RETURN(const Contexts contexts, LoadContexts());
    if (!contexts.current.empty()) {
      const Contexts::Named* named = contexts.Find(contexts.current);
      if (named == nullptr) {
        return MakeError(reason::kArgumentInvalid,
                         absl::StrCat("there is no context \"", contexts.current, "\""),
                         {"libreyolo context list shows them",
                          "libreyolo context use local goes back to the local daemon"});
      }
      kept = named->options;
      address = kept.server;
    }
  }
  ServerChoice choice;
  if (address.empty()) return choice;
  LY_ASSIGN_OR_RETURN(choice.address, ParseAddress(address));
  ServerOptions options;
  options.ca = FirstOf(typed.ca, Environment("LIBREYOLO_CA"), kept.ca);
  options.cert = FirstOf(typed.cert, Environment("LIBREYOLO_CERT"), kept.cert);
  options.key = FirstOf(typed.key, Environment("LIBREYOLO_KEY"), kept.key);
  const std::string token = Environment("LIBREYOLO_TOKEN");
  options.token_file = FirstOf(typed.token_file, Environment("LIBREYOLO_TOKEN_FILE"),
                               token.empty() ? kept.token_file : "");
  if (IsSocketAddress(choice.address)) options.ca = options.cert = options.key = "";
  LY_ASSIGN_OR_RETURN(choice.security, ReadSecurity(options, !IsLoopbackAddress(choice.address)));
  if (options.token_file.empty() && !token.empty()) {
    LY_ASSIGN_OR_RETURN(choice.security.token, CheckToken(token, "LIBREYOLO_TOKEN"));
  }
  return choice;
}

}  // namespace libreyolo::client
