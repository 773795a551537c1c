#include <sys/statvfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/rpc/local_daemon.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// A trace of a long training takes about this much while it is written and analysed.
constexpr int64_t kLittleDiskBytes = int64_t{2} << 30;

enum class Health { kOk, kWarning, kFailed };

struct Check {
  const char* name;
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

Check CheckWorker(const v1::Capabilities& about) {
  if (about.worker_available()) return {"worker", Health::kOk, "can be started", {}};
  return {"worker",
          Health::kFailed,
          about.worker_unavailable_reason(),
          {"install libreyolo-worker beside libreyolod, from the same build",
           "readers work without it"}};
}

Check CheckCuda(const v1::Capabilities& about) {
  if (about.cuda_usable()) return {"cuda", Health::kOk, "driver and CUPTI are there", {}};
  return {"cuda",
          Health::kWarning,
          about.cuda_unusable_reason(),
          {"--device cpu measures on the CPU",
           "for a GPU: nvidia-smi must list it for the user that runs libreyolod"}};
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
  v1::Capabilities about;
  const absl::Status asked =
      Call(*v1::ServerService::NewStub(server->channel), &v1::ServerService::Stub::GetCapabilities,
           v1::GetCapabilitiesRequest(), about);
  if (!asked.ok()) {
    checks.push_back(FailedCheck("server", asked));
    return Print(context, checks, ExitCodeOf(asked));
  }
  for (const auto check : {CheckBuild, CheckAdmission, CheckWorker, CheckCuda}) {
    checks.push_back(check(about));
  }
  AddDevices(*server, checks);
  // Of another host's disks only its daemon could tell.
  if (server->local) {
    checks.push_back(CheckWorkspace(about.workspace_root()));
    checks.push_back(CheckDisk("state", server->state_dir));
  }
  return Print(context, checks, kExitOk);
}

}  // namespace libreyolo::client
