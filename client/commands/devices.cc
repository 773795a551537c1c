#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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

// "1410 of 1980 MHz, power cap" and what else a look at a GPU tells, where it tells it.
std::string StateOf(const v1::GpuState& gpu) {
  std::vector<std::string> parts;
  if (gpu.has_busy_percent()) parts.push_back(absl::StrCat(gpu.busy_percent(), " % busy"));
  if (gpu.has_sm_clock_mhz()) {
    parts.push_back(gpu.has_max_sm_clock_mhz()
                        ? absl::StrCat(gpu.sm_clock_mhz(), " of ", gpu.max_sm_clock_mhz(), " MHz")
                        : absl::StrCat(gpu.sm_clock_mhz(), " MHz"));
  }
  if (gpu.has_power_w()) {
    parts.push_back(gpu.has_power_limit_w()
                        ? absl::StrFormat("%.0f of %.0f W", gpu.power_w(), gpu.power_limit_w())
                        : absl::StrFormat("%.0f W", gpu.power_w()));
  }
  if (gpu.has_temperature_c()) parts.push_back(absl::StrCat(gpu.temperature_c(), " C"));
  for (const std::string& limit : gpu.clock_limits()) parts.push_back(limit);
  if (gpu.has_persistence() && !gpu.persistence()) parts.emplace_back("persistence off");
  if (!gpu.compute_mode().empty() && gpu.compute_mode() != "default") {
    parts.push_back(gpu.compute_mode());
  }
  return absl::StrJoin(parts, ", ");
}

// One line for each GPU's state and each of its processes, under the table.
void PrintDetails(const v1::Device& device, std::ostream& out) {
  if (!device.has_gpu() || !device.parent().empty()) return;
  out << absl::StrCat(device.id(), "  ", device.uuid(), "  ", StateOf(device.gpu()), "\n");
  for (const v1::DeviceProcess& process : device.processes()) {
    out << absl::StrCat(
        "  process ", process.pid(), "  ",
        process.name().empty() ? "(of another user or container)" : process.name(),
        process.has_memory_bytes() ? absl::StrCat("  ", BytesText(process.memory_bytes())) : "",
        "\n");
  }
}

}  // namespace

absl::StatusOr<int> RunDevices(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  const auto stub = v1::DeviceService::NewStub(server.channel);
  v1::ListDevicesRequest request;
  // As for jobs: the variable means the machine that it was set on.
  const std::optional<std::string> visible = context.deps.env("CUDA_VISIBLE_DEVICES");
  if (server.local && visible.has_value()) {
    request.set_cuda_visible_devices(visible->empty() ? "-1" : *visible);
  }
  v1::ListDevicesResponse response;
  LY_RETURN_IF_ERROR(Call(*stub, &v1::DeviceService::Stub::ListDevices, request, response));
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
  for (const v1::Device& device : response.devices()) PrintDetails(device, context.out());
  if (!request.cuda_visible_devices().empty()) {
    std::vector<std::string> names;
    for (const v1::Device& device : response.devices()) {
      if (!device.visible_as().empty()) {
        names.push_back(absl::StrCat(device.visible_as(), " is ", device.id()));
      }
    }
    std::sort(names.begin(), names.end());
    context.out() << absl::StrCat("CUDA_VISIBLE_DEVICES=", request.cuda_visible_devices(), ": ",
                                  names.empty() ? "no GPU" : absl::StrJoin(names, ", "), "\n");
  }
  if (!response.cuda_unusable_reason().empty()) {
    context.out() << absl::StrCat("no GPU: ", response.cuda_unusable_reason(), "\n");
  }
  return kExitOk;
}

}  // namespace libreyolo::client
