#include "server/daemon/settings.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr double kMaxSeconds = 1e9;

const Setting kSettings[] = {
    {"listen", "--listen", "ADDRESS",
     "unix:PATH or HOST:PORT, off loopback only with --tls-cert; may be given several times",
     [](Config& c) -> Slot { return &c.listen; }},
    {"socket_mode", "--socket-mode", "MODE",
     "who may connect to unix sockets, in octal: 600 (its user), 660 (its group too),\n"
     "666 (every account here); each account is a user of its own then",
     [](Config& c) -> Slot { return &c.socket_mode; }},
    {"socket_group", "--socket-group", "GROUP", "the group that unix sockets are given",
     [](Config& c) -> Slot { return &c.socket_group; }},
    {"socket_role", "--socket-role", "ROLE",
     "what an account is that --tokens does not name: viewer, submitter (default), admin,\n"
     "or none; the daemon's own and root are admins",
     [](Config& c) -> Slot { return &c.socket_role; }},
    {"max_connections", "--max-connections", "N", "connections at once (1000)",
     [](Config& c) -> Slot { return &c.max_connections; }},
    {"max_connections_per_peer", "--max-connections-per-peer", "N",
     "of one account or network address (256)",
     [](Config& c) -> Slot { return &c.max_connections_per_peer; }},
    {"max_calls_per_user", "--max-calls-per-user", "N",
     "calls of one user at once, watched jobs too (2000)",
     [](Config& c) -> Slot { return &c.max_calls_per_user; }},
    {"stall_timeout_seconds", "--stall-timeout", "SECONDS",
     "a transfer whose other end does nothing for so long is ended (60)",
     [](Config& c) -> Slot { return &c.stall_timeout; }},
    {"handshake_timeout_seconds", "--handshake-timeout", "SECONDS",
     "a new connection that is not set up by then is closed (20)",
     [](Config& c) -> Slot { return &c.handshake_timeout; }},
    {"keepalive_seconds", "--keepalive", "SECONDS",
     "a connection that is silent for so long in a call is asked for a sign of life (60)",
     [](Config& c) -> Slot { return &c.keepalive; }},
    {"connection_idle_seconds", "--connection-idle", "SECONDS",
     "a connection without calls is closed after so long (600)",
     [](Config& c) -> Slot { return &c.connection_idle; }},
    {"connection_age_seconds", "--connection-age", "SECONDS",
     "a connection that is so old takes no more calls (3600)",
     [](Config& c) -> Slot { return &c.connection_age; }},
    {"min_free_bytes", "--min-free", "BYTES",
     "refuse uploads and jobs that would leave less of the disk (256 MiB)",
     [](Config& c) -> Slot { return &c.min_free_bytes; }},
    {"store", "--store", "DIR", "where jobs, profiles and logs are kept; one daemon a store",
     [](Config& c) -> Slot { return &c.store; }},
    {"weights_dir", "--weights-dir", "DIR",
     "also look for weights here; may be given several times",
     [](Config& c) -> Slot { return &c.weights_folders; }},
    {"datasets_dir", "--datasets-dir", "DIR",
     "look for datasets here; may be given several times ($LIBREYOLO_DATASETS_DIR, ~/datasets)",
     [](Config& c) -> Slot { return &c.datasets_folders; }},
    {"cache", "--cache", "DIR", "downloads ($XDG_CACHE_HOME/libreyolo)",
     [](Config& c) -> Slot { return &c.cache_dir; }},
    {"hub", "--hub", "URL", "where weights are downloaded from",
     [](Config& c) -> Slot { return &c.hub_base_url; }},
    {"log", "--log", "FILE", "log there instead of stderr",
     [](Config& c) -> Slot { return &c.log_path; }},
    {"worker", "--worker", "PATH", "the worker executable (libreyolo-worker beside this one)",
     [](Config& c) -> Slot { return &c.worker_path; }},
    {"lock_dir", "--lock-dir", "DIR", "where device locks stand (/run/lock)",
     [](Config& c) -> Slot { return &c.lock_dir; }},
    {"heartbeat_seconds", "--heartbeat", "SECONDS",
     "a worker that is silent for so long is killed (60)",
     [](Config& c) -> Slot { return &c.heartbeat; }},
    {"metrics_listen", "--metrics-listen", "ADDRESS",
     "HOST:PORT of Prometheus metrics over plain HTTP, such as 127.0.0.1:9464; off without it",
     [](Config& c) -> Slot { return &c.metrics_listen; }},
    {"metrics_anywhere", "--metrics-anywhere", "",
     "let --metrics-listen name an address that other hosts reach",
     [](Config& c) -> Slot { return &c.metrics_anywhere; }},
    {"worker_network", "--worker-network", "", "leave the network to workers, which need none",
     [](Config& c) -> Slot { return &c.worker_network; }},
    {"worker_children", "--worker-children", "",
     "let workers start processes; libreyolo-worker starts none",
     [](Config& c) -> Slot { return &c.worker_children; }},
    {"worker_all_files", "--worker-all-files", "",
     "leave all files to workers that the daemon itself may open",
     [](Config& c) -> Slot { return &c.worker_all_files; }},
    {"worker_read", "--worker-read", "PATH", "workers may read it too (repeatable)",
     [](Config& c) -> Slot { return &c.worker_read; }},
    {"worker_memory_bytes", "--worker-memory", "BYTES",
     "own memory of a worker (0: as much as there is)",
     [](Config& c) -> Slot { return &c.worker_limits.memory_bytes; }},
    {"worker_cpu_seconds", "--worker-cpu-time", "SECONDS",
     "CPU time of a worker (0: what the job's time limit allows)",
     [](Config& c) -> Slot { return &c.worker_limits.cpu_seconds; }},
    {"worker_open_files", "--worker-files", "N", "files that a worker has open (16384)",
     [](Config& c) -> Slot { return &c.worker_limits.open_files; }},
    {"worker_processes", "--worker-processes", "N",
     "processes and threads of the account when a worker starts more (16384; 0: any)",
     [](Config& c) -> Slot { return &c.worker_limits.processes; }},
    {"worker_file_bytes", "--worker-file-size", "BYTES",
     "of one file that a worker writes (32 GiB; 0: any)",
     [](Config& c) -> Slot { return &c.worker_limits.file_bytes; }},
    {"tls_cert", "--tls-cert", "FILE", "PEM chain: serve TLS 1.3; read again when it changes",
     [](Config& c) -> Slot { return &c.tls.certificate; }},
    {"tls_key", "--tls-key", "FILE", "its private key, unreadable for others",
     [](Config& c) -> Slot { return &c.tls.key; }},
    {"tls_client_ca", "--tls-client-ca", "FILE",
     "who signs client certificates; their common name is the user's",
     [](Config& c) -> Slot { return &c.tls.client_ca; }},
    {"tokens", "--tokens", "FILE",
     "who may come in: lines of principal, role (viewer, submitter, admin) and the\n"
     "SHA-256 of a token, or cert, account or uid:N; mode 600; read again when it changes",
     [](Config& c) -> Slot { return &c.users_path; }},
    {"max_queued_per_user", "--max-queued-per-user", "N",
     "jobs of one user that may wait (20 where users are told apart; 0: any)",
     [](Config& c) -> Slot { return &c.max_queued_per_user; }},
    {"max_stored_bytes_per_user", "--max-stored-per-user", "BYTES",
     "of one user's uploads and results (50 GiB likewise; 0: any)",
     [](Config& c) -> Slot { return &c.max_stored_bytes_per_user; }},
    {"max_job_bytes_per_user", "--max-job-bytes-per-user", "BYTES",
     "of the records and logs of one user's ended jobs; the oldest go (256 MiB; 0: any)",
     [](Config& c) -> Slot { return &c.max_job_bytes_per_user; }},
    {"max_upload_bytes", "--max-upload", "BYTES", "of one file (4 GiB)",
     [](Config& c) -> Slot { return &c.max_upload_bytes; }},
    {"retain_age_seconds", "--retain-age", "SECONDS",
     "remove results that are older; never the newest of a workspace, a pinned one or one\n"
     "that is read (0: none; 2592000 is 30 days)",
     [](Config& c) -> Slot { return &c.retention.max_age_seconds; }},
    {"retain_count", "--retain-count", "N",
     "likewise the oldest of more than N in a workspace, a repeat being one (0: any)",
     [](Config& c) -> Slot { return &c.retention.max_count; }},
    {"retain_bytes", "--retain-bytes", "BYTES",
     "likewise until what is left in a workspace takes no more (0: any)",
     [](Config& c) -> Slot { return &c.retention.max_bytes; }},
    {"max_trace_bytes", trace::kMaxTraceBytesFlag, "BYTES",
     "of a trace that is read, unpacked (16 GiB; 0 lifts this and each of the next)",
     [](Config& c) -> Slot { return &c.trace_limits.max_bytes; }},
    {"max_trace_events", trace::kMaxTraceEventsFlag, "N", "of its events (200 million)",
     [](Config& c) -> Slot { return &c.trace_limits.max_events; }},
    {"max_trace_memory_bytes", trace::kMaxTraceMemoryFlag, "BYTES",
     "of what is kept of it while it is analysed (8 GiB)",
     [](Config& c) -> Slot { return &c.trace_limits.max_memory_bytes; }},
    {"max_trace_value_bytes", trace::kMaxTraceValueFlag, "BYTES",
     "of one event (64 MiB); $LIBREYOLO_MAX_TRACE_BYTES, ..._EVENTS, ..._MEMORY\n"
     "and ..._VALUE stand in for settings that are not given",
     [](Config& c) -> Slot { return &c.trace_limits.max_value_bytes; }},
    {"local", "--local", "", "serve one user's folder; used by the libreyolo client",
     [](Config& c) -> Slot { return &c.local; }, true},
    {"workspace", "--workspace", "DIR", "with --local: the folder",
     [](Config& c) -> Slot { return &c.workspace; }, true},
    {"state", "--state", "DIR", "with --local: where its index and log are",
     [](Config& c) -> Slot { return &c.state; }, true},
    {"idle_timeout_seconds", "--idle-timeout", "SECONDS",
     "with --local: end after so long without calls or jobs (900)",
     [](Config& c) -> Slot { return &c.idle_timeout; }, true},
};

const FieldDescriptor& FieldOf(const Setting& setting) {
  const FieldDescriptor* field =
      config::v1::DaemonConfig::descriptor()->FindFieldByName(setting.field);
  LY_CHECK(field != nullptr) << setting.field;
  return *field;
}

bool IsGiven(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                             : reflection.HasField(message, &field);
}

const Setting& FindByFlag(absl::string_view flag) {
  const auto found = std::find_if(std::begin(kSettings), std::end(kSettings),
                                  [&](const Setting& setting) { return flag == setting.flag; });
  LY_CHECK(found != std::end(kSettings)) << std::string(flag);
  return *found;
}

size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j - 1] + 1, above + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

// Keeps the first error of a file; what follows it is mostly its echo.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text_.empty()) return;
    place_ = line < 0 ? "" : absl::StrCat(":", line + 1, ":", column + 1);
    text_ = message;
  }
  const std::string& place() const { return place_; }
  // What is wrong, in our words where the parser speaks of message types.
  std::string Text() const {
    static constexpr char kNoField[] = "has no field named \"";
    const size_t at = text_.find(kNoField);
    if (at == std::string::npos) {
      std::string text(absl::StripSuffix(text_, "."));
      if (!text.empty()) text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
      return text;
    }
    std::string name = text_.substr(at + sizeof kNoField - 1);
    name = name.substr(0, name.find('"'));
    std::vector<std::string> fields;
    for (const Setting& setting : kSettings) fields.emplace_back(setting.field);
    return absl::StrCat("no setting is called \"", name, "\"; the nearest is \"",
                        NearestName(name, fields), "\"");
  }

 private:
  std::string place_;
  std::string text_;
};

absl::Status OutOfRange(const std::string& name, absl::string_view takes, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(name, " takes ", takes, ", not \"", text, "\""));
}

constexpr char kCount[] = "a whole number from 0 on";
constexpr char kSeconds[] = "a number of seconds above 0, at most 1e9";

// Copies the field's value out of a message, in the way of the slot's kind.
struct ApplyTo {
  const Message& from;
  const FieldDescriptor& field;
  const std::string name;

  const google::protobuf::Reflection& reflection() const { return *from.GetReflection(); }
  absl::Status operator()(std::string* out) const {
    *out = reflection().GetString(from, &field);
    return absl::OkStatus();
  }
  absl::Status operator()(std::vector<std::string>* out) const {
    out->clear();
    for (int i = 0; i < reflection().FieldSize(from, &field); ++i)
      out->push_back(reflection().GetRepeatedString(from, &field, i));
    return absl::OkStatus();
  }
  absl::Status operator()(bool* out) const {
    *out = reflection().GetBool(from, &field);
    return absl::OkStatus();
  }
  absl::Status operator()(int64_t* out) const {
    *out = reflection().GetInt64(from, &field);
    return *out >= 0 ? absl::OkStatus() : OutOfRange(name, kCount, absl::StrCat(*out));
  }
  absl::Status operator()(absl::Duration* out) const {
    const double seconds = reflection().GetDouble(from, &field);
    if (!(seconds > 0) || seconds > kMaxSeconds)
      return OutOfRange(name, kSeconds, absl::StrCat(seconds));
    *out = absl::Seconds(seconds);
    return absl::OkStatus();
  }
  absl::Status operator()(unsigned* out) const {
    const std::string text = reflection().GetString(from, &field);
    for (const unsigned mode : {0600U, 0660U, 0666U}) {
      const std::string written = absl::StrFormat("%o", mode);
      if (text != written && text != "0" + written) continue;
      *out = mode;
      return absl::OkStatus();
    }
    return OutOfRange(name, "600, 660 or 666", text);
  }
};

// The way back, for Describe.
struct WriteInto {
  Message& into;
  const FieldDescriptor& field;

  const google::protobuf::Reflection& reflection() const { return *into.GetReflection(); }
  void operator()(std::string* value) const {
    if (!value->empty()) reflection().SetString(&into, &field, *value);
  }
  void operator()(std::vector<std::string>* values) const {
    for (const std::string& value : *values) reflection().AddString(&into, &field, value);
  }
  void operator()(bool* value) const { reflection().SetBool(&into, &field, *value); }
  void operator()(int64_t* value) const { reflection().SetInt64(&into, &field, *value); }
  void operator()(absl::Duration* value) const {
    reflection().SetDouble(&into, &field, absl::ToDoubleSeconds(*value));
  }
  void operator()(unsigned* value) const {
    reflection().SetString(&into, &field, absl::StrFormat("%o", *value));
  }
};

}  // namespace

absl::Span<const Setting> Settings() { return kSettings; }

std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string& candidate : candidates) {
    if (word.size() >= 3 && absl::StartsWith(candidate, word)) return candidate;
    if (const size_t distance = Distance(word, candidate); distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

absl::Status GivenSettings::TakeFlag(const Setting& setting, const std::string& value) {
  const FieldDescriptor& field = FieldOf(setting);
  const auto& reflection = *flags_.GetReflection();
  int64_t count = 0;
  double number = 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value != "true" && value != "false")
        return OutOfRange(setting.flag, "no value, true or false", value);
      reflection.SetBool(&flags_, &field, value == "true");
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      if (!absl::SimpleAtoi(value, &count)) return OutOfRange(setting.flag, kCount, value);
      reflection.SetInt64(&flags_, &field, count);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!absl::SimpleAtod(value, &number)) return OutOfRange(setting.flag, kSeconds, value);
      reflection.SetDouble(&flags_, &field, number);
      break;
    default:
      if (field.is_repeated()) {
        reflection.AddString(&flags_, &field, value);
      } else {
        reflection.SetString(&flags_, &field, value);
      }
  }
  return absl::OkStatus();
}

absl::Status GivenSettings::TakeFile(const std::string& path) {
  path_ = path;
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes + 1);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        text.status().message(),
        "; name a file that this user can read, or leave --config out and give flags"));
  }
  if (static_cast<int64_t>(text->size()) > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no configuration: it has more than 1 MiB"));
  }
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places_);
  google::protobuf::io::ArrayInputStream stream(text->data(), static_cast<int>(text->size()));
  if (parser.Parse(&stream, &file_)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, error.place(), ": ", error.Text()));
}

const Message* GivenSettings::SourceOf(const Setting& setting) const {
  const FieldDescriptor& field = FieldOf(setting);
  if (IsGiven(flags_, field)) return &flags_;
  return IsGiven(file_, field) ? &file_ : nullptr;
}

bool GivenSettings::Has(absl::string_view flag) const {
  return SourceOf(FindByFlag(flag)) != nullptr;
}

std::string GivenSettings::Place(const Setting& setting, int index) const {
  const FieldDescriptor& field = FieldOf(setting);
  const auto place = places_.GetLocation(&field, field.is_repeated() ? index : -1);
  return absl::StrCat(path_, ":", place.line + 1, ":", place.column + 1);
}

std::string GivenSettings::Name(absl::string_view flag) const {
  const Setting& setting = FindByFlag(flag);
  if (SourceOf(setting) != &file_) return setting.flag;
  return absl::StrCat(setting.field, " (", Place(setting), ")");
}

absl::Status GivenSettings::Apply(Config& config) const {
  for (const Setting& setting : kSettings) {
    const Message* from = SourceOf(setting);
    if (from == nullptr) continue;
    LY_RETURN_IF_ERROR(
        std::visit(ApplyTo{*from, FieldOf(setting), Name(setting.flag)}, setting.slot(config)));
  }
  return absl::OkStatus();
}

std::string GivenSettings::Describe(Config config) const {
  std::string out;
  for (const Setting& setting : kSettings) {
    if (setting.local_only && !config.local) continue;
    config::v1::DaemonConfig value;
    std::visit(WriteInto{value, FieldOf(setting)}, setting.slot(config));
    std::string lines;
    TextFormat::PrintToString(value, &lines);
    absl::string_view rest = lines;
    const Message* source = SourceOf(setting);
    for (int i = 0; !rest.empty(); ++i) {
      const size_t end = rest.find('\n');
      absl::StrAppend(&out, rest.substr(0, end), "  # ",
                      source == nullptr   ? "default"
                      : source == &flags_ ? setting.flag
                                          : Place(setting, i),
                      "\n");
      rest.remove_prefix(end + 1);
    }
  }
  return out;
}

}  // namespace libreyolo::daemon
