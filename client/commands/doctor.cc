#include <sys/statvfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/rpc/local_daemon.h"
#include "client/rpc/reach.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// A trace of a long training takes about this much while it is written and analysed.
constexpr int64_t kLittleDiskBytes = int64_t{2} << 30;
constexpr absl::Duration kMuchSkew = absl::Seconds(30);
constexpr absl::Duration kSoon = absl::Hours(14 * 24);

enum class Health { kOk, kWarning, kFailed };

struct Check {
  std::string name;
  Health health;
  std::string text;
  std::vector<std::string> hints;
};

const char* NameOf(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarning:
      return "warning";
    case Health::kFailed:
      break;
  }
  return "FAILED";
}

Check FailedCheck(const char* name, const absl::Status& status) {
  ErrorDetail detail = GetErrorDetail(status);
  return {name, Health::kFailed, detail.message, std::move(detail.hints)};
}

Check CheckBuild(const v1::Capabilities& about) {
  const std::string text =
      absl::StrCat(about.version(), " (build ", about.build_id(), "), API ", about.api_version());
  if (about.build_id() == BuildId()) return {"versions", Health::kOk, text, {}};
  return {"versions",
          Health::kWarning,
          absl::StrCat(text, "; this client is ", Version(), " (build ", BuildId(), ")"),
          {"they work together as long as the API is the same; install both from one build to be "
           "sure"}};
}

Check CheckAdmission(const v1::Capabilities& about) {
  if (about.cordoned()) {
    return {"jobs",
            Health::kWarning,
            "the server is cordoned and takes no new jobs",
            {"libreyolo daemon uncordon opens it, for an admin"}};
  }
  if (about.draining()) {
    return {"jobs",
            Health::kWarning,
            "the server drains and takes no new jobs",
            {"wait until it is started again"}};
  }
  return {"jobs",
          Health::kOk,
          absl::StrCat(about.active_jobs(), " not ended, at most ", about.max_queued_jobs(),
                       " may wait"),
          {}};
}

// Without a look at the server from inside: what it tells everybody.
void AddFromOutside(const v1::Capabilities& about, std::vector<Check>& checks) {
  if (about.worker_available()) {
    checks.push_back({"worker", Health::kOk, "can be started", {}});
  } else {
    checks.push_back({"worker",
                      Health::kFailed,
                      about.worker_unavailable_reason(),
                      {"install libreyolo-worker beside libreyolod, from the same build",
                       "readers work without it"}});
  }
  if (about.cuda_usable()) {
    checks.push_back({"driver", Health::kOk, "lists GPUs that can be used", {}});
  } else {
    checks.push_back({"driver",
                      Health::kWarning,
                      about.cuda_unusable_reason(),
                      {"--device cpu measures on the CPU",
                       "for a GPU: nvidia-smi must list it for the user that runs libreyolod"}});
  }
}

// What the server finds when it looks at itself, which it tells its admins.
void AddFromInside(const Server& server, const v1::Capabilities& about,
                   std::vector<Check>& checks) {
  v1::Diagnosis diagnosis;
  const absl::Status status =
      Call(*v1::ServerService::NewStub(server.channel), &v1::ServerService::Stub::Diagnose,
           v1::DiagnoseRequest(), diagnosis);
  if (!status.ok()) {
    AddFromOutside(about, checks);
    const bool is_older = status.code() == absl::StatusCode::kUnimplemented;
    if (HasReason(status, reason::kPermissionDenied) || is_older) {
      checks.push_back({"inside",
                        Health::kWarning,
                        is_older
                            ? "the server is too old to look at itself"
                            : "the server looks at its disks, files and worker for admins alone",
                        {is_older ? "install a libreyolod of this client's build"
                                  : "ask one to run libreyolo doctor"}});
    } else {
      checks.push_back(FailedCheck("inside", status));
    }
    return;
  }
  for (const v1::DiagnosisFinding& finding : diagnosis.findings()) {
    checks.push_back({finding.check(),
                      finding.health() == v1::DiagnosisFinding::HEALTH_OK        ? Health::kOk
                      : finding.health() == v1::DiagnosisFinding::HEALTH_WARNING ? Health::kWarning
                                                                                 : Health::kFailed,
                      finding.text(),
                      {finding.hints().begin(), finding.hints().end()}});
  }
}

// `asked` and `answered` are this machine's clock around the question.
Check CheckClock(const v1::Capabilities& about, absl::Time asked, absl::Time answered) {
  if (about.time_unix_ms() == 0) {
    return {"clock",
            Health::kWarning,
            "the server does not tell its time",
            {"install a libreyolod of this client's build"}};
  }
  const absl::Time there = absl::FromUnixMillis(about.time_unix_ms());
  // Within the call it may have answered at any time.
  const absl::Duration skew = there < asked      ? asked - there
                              : there > answered ? there - answered
                                                 : absl::ZeroDuration();
  const std::string text = absl::StrCat(
      "the server's is ",
      skew < absl::Seconds(1)
          ? "this machine's"
          : absl::StrCat(absl::FormatDuration(absl::Trunc(skew, absl::Milliseconds(100))),
                         there < asked ? " behind" : " ahead"));
  if (skew < kMuchSkew) return {"clock", Health::kOk, text, {}};
  return {"clock",
          Health::kWarning,
          text,
          {"times of jobs and the validity of certificates are the server's: let both machines set "
           "their clocks by the network (timedatectl set-ntp true)"}};
}

// TLS of a server that was reached: what will go wrong next.
void AddTls(const Server& server, absl::Time now, std::vector<Check>& checks) {
  if (!server.security.tls) return;
  const absl::StatusOr<TlsReport> report = ProbeServer(server.address, server.security);
  if (!report.ok()) {
    checks.push_back(FailedCheck("tls", report.status()));
    return;
  }
  const std::string text =
      absl::StrCat(report->version, ", certificate of ",
                   report->subject.empty() ? "no common name" : report->subject, " until ",
                   absl::FormatTime("%Y-%m-%d", report->not_after, absl::UTCTimeZone()));
  if (report->not_after > now + kSoon) {
    checks.push_back({"tls", Health::kOk, text, {}});
  } else {
    checks.push_back({"tls",
                      Health::kWarning,
                      absl::StrCat(text, ": it expires soon"),
                      {"ask the server's operator to renew it; no restart is needed"}});
  }
}

void AddDevices(const Server& server, std::vector<Check>& checks) {
  v1::ListDevicesResponse response;
  const absl::Status status =
      Call(*v1::DeviceService::NewStub(server.channel), &v1::DeviceService::Stub::ListDevices,
           v1::ListDevicesRequest(), response);
  if (!status.ok()) {
    checks.push_back(FailedCheck("devices", status));
    return;
  }
  for (const v1::Device& device : response.devices()) {
    const std::string text = absl::StrCat(device.id(), ": ", device.description());
    if (!device.usable()) {
      checks.push_back({"device",
                        Health::kWarning,
                        absl::StrCat(text, ": ", device.unusable_reason()),
                        {"choose another device; --device cpu measures on the CPU"}});
    } else {
      const std::string holder = device.leased_by();
      checks.push_back({"device",
                        Health::kOk,
                        holder.empty() ? text : absl::StrCat(text, ", held by ", holder),
                        {}});
    }
  }
}

Check CheckDisk(const char* name, const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) {
    return {name,
            Health::kFailed,
            absl::StrCat(folder, " cannot be looked at"),
            {"let this user enter the folder"}};
  }
  const int64_t free_bytes =
      static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  const std::string text = absl::StrCat(folder, ": ", free_bytes >> 20, " MiB free");
  if (free_bytes >= kLittleDiskBytes) return {name, Health::kOk, text, {}};
  return {name,
          Health::kWarning,
          text,
          {"a long trace may need more: make room, or start from another folder"}};
}

// The folder that results go to; readers need no more than to read it.
Check CheckWorkspace(const std::string& folder) {
  if (::access(folder.c_str(), W_OK) == 0) return CheckDisk("workspace", folder);
  return {"workspace",
          Health::kWarning,
          absl::StrCat(folder, " is not writable"),
          {"readers work; to measure, start from a folder of your own"}};
}

int Print(const Context& context, const std::vector<Check>& checks, int code) {
  JsonValue::Array rows;
  for (const Check& check : checks) {
    if (check.health == Health::kFailed && code == kExitOk) code = kExitNoProfile;
    if (!context.json()) {
      context.out() << absl::StrFormat("%-8s %s: %s\n", NameOf(check.health), check.name,
                                       check.text);
      for (const std::string& hint : check.hints)
        context.out() << "         hint: " << hint << "\n";
      continue;
    }
    JsonValue& row = rows.emplace_back(JsonValue::Object{});
    row.Set("check", check.name);
    row.Set("health", NameOf(check.health));
    row.Set("text", check.text);
    row.Set("hints", JsonValue(JsonValue::Array(check.hints.begin(), check.hints.end())));
  }
  if (context.json()) {
    JsonValue json{JsonValue::Object{}};
    json.Set("healthy", code == kExitOk);
    json.Set("checks", JsonValue(std::move(rows)));
    context.out() << json.ToIndented() << "\n";
  }
  return code;
}

}  // namespace

absl::StatusOr<int> RunDoctor(const Context& context) {
  std::vector<Check> checks;
  const absl::StatusOr<Server> server = context.Connect(NeedDaemon::kAny);
  if (!server.ok()) {
    checks.push_back(FailedCheck("server", server.status()));
    return Print(context, checks, ExitCodeOf(server.status()));
  }
  checks.push_back({"server",
                    Health::kOk,
                    absl::StrCat(server->address, server->local ? ", this folder's own" : ""),
                    {}});
  AddTls(*server, context.deps.clock.Wall(), checks);
  v1::Capabilities about;
  const absl::Time asked = context.deps.clock.Wall();
  const absl::Status status =
      Call(*v1::ServerService::NewStub(server->channel), &v1::ServerService::Stub::GetCapabilities,
           v1::GetCapabilitiesRequest(), about);
  if (!status.ok()) {
    checks.push_back(FailedCheck("access", status));
    return Print(context, checks, ExitCodeOf(status));
  }
  if (!about.principal().empty()) {
    checks.push_back(
        {"access", Health::kOk, absl::StrCat("as ", about.principal(), ", ", about.role()), {}});
  }
  checks.push_back(CheckBuild(about));
  checks.push_back(CheckClock(about, asked, context.deps.clock.Wall()));
  checks.push_back(CheckAdmission(about));
  AddFromInside(*server, about, checks);
  AddDevices(*server, checks);
  if (server->local) checks.push_back(CheckWorkspace(about.workspace_root()));
  return Print(context, checks, kExitOk);
}

}  // namespace libreyolo::client
