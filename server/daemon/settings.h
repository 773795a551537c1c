// The daemon's settings: the one table where a flag, a field of the configuration file
// (proto/libreyolo/config/v1/config.proto) and a member of Config meet. A setting is added by a
// field there, a member in config.h and a row here; help, file, --check-config and the shipped
// default file follow.
#pragma once

#include <google/protobuf/text_format.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libreyolo/config/v1/config.pb.h"
#include "server/daemon/config.h"

namespace libreyolo::daemon {

// Where a setting lies in a Config. The kind says what is taken: any text, a list of texts, a
// switch, a whole number from 0 on, seconds above 0, or the mode of a socket.
using Slot = std::variant<std::string*, std::vector<std::string>*, bool*, int64_t*, absl::Duration*,
                          unsigned*>;

struct Setting {
  const char* field;     // of DaemonConfig
  const char* flag;      // "--listen"
  const char* argument;  // "ADDRESS"; empty: a switch
  const char* help;      // for --help; lines are broken by hand
  Slot (*slot)(Config& config);
  bool local_only = false;  // for daemons that serve one user's folder
};

absl::Span<const Setting> Settings();

// The candidate that `word` most likely stood for: one that begins with it, else the one with the
// fewest letters to change. Empty only without candidates.
std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates);

// What was given, by flags and by at most one file, and where.
class GivenSettings {
 public:
  GivenSettings() = default;
  GivenSettings(const GivenSettings&) = delete;
  GivenSettings& operator=(const GivenSettings&) = delete;

  // A flag with its value; a switch has "true" or "false". InvalidArgument says what it takes.
  absl::Status TakeFlag(const Setting& setting, const std::string& value);
  // The file at `path`. InvalidArgument names file, line and column, and for a field that is not
  // there the nearest one that is.
  absl::Status TakeFile(const std::string& path);

  // Writes what was given into `config`, flags before the file. InvalidArgument for a value out of
  // range. The one check of single values.
  absl::Status Apply(Config& config) const;

  bool Has(absl::string_view flag) const;
  // How a message names a setting: "--tls-cert", or "tls_cert (FILE:4:1)" when the file gave it.
  std::string Name(absl::string_view flag) const;

  // `config` as a configuration file that says of each setting where its value came from. Settings
  // that have no value are left out.
  std::string Describe(Config config) const;

 private:
  const google::protobuf::Message* SourceOf(const Setting& setting) const;
  std::string Place(const Setting& setting, int index = 0) const;

  config::v1::DaemonConfig flags_;
  config::v1::DaemonConfig file_;
  google::protobuf::TextFormat::ParseInfoTree places_;
  std::string path_;
};

}  // namespace libreyolo::daemon
