#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/render/json.h"
#include "client/render/progress.h"
#include "client/render/table.h"
#include "common/base/status_macros.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

std::string HolderOf(const v1::Device& device) {
  if (!device.usable()) return absl::StrCat("not usable: ", device.unusable_reason());
  return device.leased_by().empty() ? "free" : absl::StrCat("held by ", device.leased_by());
}

std::string MemoryOf(const v1::Device& device) {
  if (device.memory_total_bytes() == 0) return "";
  const std::string total = BytesText(device.memory_total_bytes());
  if (!device.has_memory_used_bytes()) return total;
  return absl::StrCat(BytesText(device.memory_used_bytes()), " of ", total);
}

}  // namespace

absl::StatusOr<int> RunDevices(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  const auto stub = v1::DeviceService::NewStub(server.channel);
  v1::ListDevicesResponse response;
  LY_RETURN_IF_ERROR(
      Call(*stub, &v1::DeviceService::Stub::ListDevices, v1::ListDevicesRequest(), response));
  if (context.json()) {
    JsonValue::Array items;
    for (const v1::Device& device : response.devices()) items.push_back(DeviceJson(device));
    JsonValue json{JsonValue::Object{}};
    json.Set("devices", JsonValue(std::move(items)));
    json.Set("cuda_unusable_reason", response.cuda_unusable_reason().empty()
                                         ? JsonValue()
                                         : JsonValue(response.cuda_unusable_reason()));
    context.out() << json.ToIndented() << "\n";
    return kExitOk;
  }
  Table table({{"device"}, {"state"}, {"memory"}, {"cpus", Table::Align::kRight}, {"description"}});
  for (const v1::Device& device : response.devices()) {
    table.Add({device.id(), HolderOf(device), MemoryOf(device),
               device.cpu_count() > 0 ? absl::StrCat(device.cpu_count()) : "",
               device.description()});
  }
  context.out() << table.ToText();
  if (!response.cuda_unusable_reason().empty()) {
    context.out() << absl::StrCat("no GPU: ", response.cuda_unusable_reason(), "\n");
  }
  return kExitOk;
}

}  // namespace libreyolo::client
