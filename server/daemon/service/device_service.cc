#include "server/daemon/service/device_service.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "server/daemon/device/visible_devices.h"
#include "server/daemon/service/unary.h"

namespace libreyolo::daemon {

namespace v1 = ::libreyolo::profile::v1;

namespace {

template <typename T, typename Setter>
void SetIf(const std::optional<T>& value, Setter set) {
  if (value.has_value()) set(*value);
}

void Fill(const gpu::GpuDescription& gpu, v1::GpuState& out) {
  out.set_pci_bus_id(gpu.pci_bus_id);
  SetIf(gpu.now.sm_clock_mhz, [&](int mhz) { out.set_sm_clock_mhz(mhz); });
  SetIf(gpu.max_sm_clock_mhz, [&](int mhz) { out.set_max_sm_clock_mhz(mhz); });
  SetIf(gpu.now.memory_clock_mhz, [&](int mhz) { out.set_memory_clock_mhz(mhz); });
  SetIf(gpu.now.clock_limits, [&](uint64_t bits) {
    for (const std::string& name : gpu::ClockLimitNames(bits)) out.add_clock_limits(name);
    out.set_throttled(gpu::IsThrottled(bits));
  });
  SetIf(gpu.now.power_w, [&](double w) { out.set_power_w(w); });
  SetIf(gpu.power_limit_w, [&](double w) { out.set_power_limit_w(w); });
  SetIf(gpu.now.energy_j, [&](double j) { out.set_energy_j(j); });
  SetIf(gpu.now.temperature_c, [&](int c) { out.set_temperature_c(c); });
  SetIf(gpu.now.busy_percent, [&](int percent) { out.set_busy_percent(percent); });
  SetIf(gpu.persistence, [&](bool on) { out.set_persistence(on); });
  out.set_compute_mode(gpu.compute_mode);
  out.set_mig_enabled(gpu.mig_enabled);
}

void Fill(const DeviceInfo& info, v1::Device& out) {
  out.set_id(info.id);
  out.set_description(info.description);
  out.set_uuid(info.uuid);
  out.set_parent(info.parent);
  out.set_usable(info.unusable.empty());
  out.set_unusable_reason(info.unusable);
  out.set_memory_total_bytes(info.memory_total_bytes);
  SetIf(info.memory_used_bytes, [&](int64_t bytes) { out.set_memory_used_bytes(bytes); });
  out.set_cpu_count(info.cpu_count);
  for (const DeviceInfo::Process& process : info.processes) {
    v1::DeviceProcess& item = *out.add_processes();
    item.set_pid(process.pid);
    item.set_name(process.name);
    SetIf(process.memory_bytes, [&](int64_t bytes) { item.set_memory_bytes(bytes); });
  }
  if (info.details.has_value()) Fill(*info.details, *out.mutable_gpu());
}

}  // namespace

grpc::ServerUnaryReactor* DeviceService::ListDevices(grpc::CallbackServerContext* context,
                                                     const v1::ListDevicesRequest* request,
                                                     v1::ListDevicesResponse* response) {
  const absl::StatusOr<Caller> caller = deps_.gate.Admit(*context, {Role::kViewer});
  if (!caller.ok()) return Refuse(*context, caller.status());
  auto* reactor = context->DefaultReactor();
  auto active = std::make_shared<ActiveCall>(deps_.gate.activity());
  // NVML may take long: never on the control thread, which knows the leases.
  deps_.executor.SubmitFor(caller->principal, [this, request, response, reactor, active] {
    const std::vector<DeviceInfo> list = deps_.devices.List();
    for (const DeviceInfo& info : list) Fill(info, *response->add_devices());
    int place = 0;
    for (const std::string& id : VisibleDevices(list, request->cuda_visible_devices())) {
      for (v1::Device& device : *response->mutable_devices()) {
        if (device.id() == id) device.set_visible_as(absl::StrCat(place));
      }
      ++place;
    }
    response->set_cuda_unusable_reason(deps_.devices.CudaUnusableReason());
    deps_.runner.Post([this, response, reactor, active] {
      for (v1::Device& device : *response->mutable_devices()) {
        device.set_leased_by(deps_.jobs.HolderOf(device.id()));
      }
      reactor->Finish(grpc::Status::OK);
    });
  });
  return reactor;
}

void ServerService::Describe(const Caller& caller, v1::Capabilities& out) const {
  out.set_active_jobs(deps_.jobs.active_count());
  out.set_draining(deps_.jobs.draining());
  out.set_time_unix_ms(absl::ToUnixMillis(absl::Now()));
  out.set_cordoned(deps_.jobs.cordoned());
  if (deps_.retention.limits().any()) {
    v1::RetentionInfo& info = *out.mutable_retention();
    info.set_max_age_seconds(deps_.retention.limits().max_age_seconds);
    info.set_max_count(deps_.retention.limits().max_count);
    info.set_max_bytes(deps_.retention.limits().max_bytes);
    info.set_removed_count(deps_.retention.counts().results());
    info.set_removed_bytes(deps_.retention.counts().bytes);
  }
  out.set_principal(caller.principal);
  out.set_role(Name(caller.role));
}

grpc::ServerUnaryReactor* ServerService::GetCapabilities(grpc::CallbackServerContext* context,
                                                         const v1::GetCapabilitiesRequest* request,
                                                         v1::Capabilities* response) {
  const absl::StatusOr<Caller> admitted = deps_.gate.Admit(*context, {Role::kViewer});
  if (!admitted.ok()) return Refuse(*context, admitted.status());
  const Caller& caller = *admitted;
  auto* reactor = context->DefaultReactor();
  auto active = std::make_shared<ActiveCall>(deps_.gate.activity());
  deps_.executor.SubmitFor(caller.principal, [this, caller, request, response, reactor, active] {
    *response = deps_.fixed;
    response->set_client_version(request->client_version());
    response->set_client_build_id(request->client_build_id());
    response->set_cuda_unusable_reason(deps_.devices.CudaUnusableReason());
    response->set_cuda_usable(response->cuda_unusable_reason().empty());
    deps_.runner.Post([this, caller, response, reactor, active] {
      Describe(caller, *response);
      reactor->Finish(grpc::Status::OK);
    });
  });
  return reactor;
}

grpc::ServerUnaryReactor* ServerService::SetCordon(grpc::CallbackServerContext* context,
                                                   const v1::SetCordonRequest* request,
                                                   v1::Capabilities* response) {
  return AnswerOn(deps_.runner, deps_.gate, *context,
                  {Role::kAdmin, request->cordoned() ? "cordon" : "uncordon"},
                  [this, request, response](const Caller& caller) -> absl::Status {
                    LY_RETURN_IF_ERROR(deps_.set_cordon(request->cordoned()));
                    *response = deps_.fixed;
                    Describe(caller, *response);
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* ServerService::Drain(grpc::CallbackServerContext* context,
                                               const v1::DrainRequest*,
                                               v1::Capabilities* response) {
  return AnswerOn(deps_.runner, deps_.gate, *context, {Role::kAdmin, "drain"},
                  [this, response](const Caller& caller) -> absl::Status {
                    deps_.drain();
                    *response = deps_.fixed;
                    Describe(caller, *response);
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* ServerService::Diagnose(grpc::CallbackServerContext* context,
                                                  const v1::DiagnoseRequest*,
                                                  v1::Diagnosis* response) {
  const absl::StatusOr<Caller> admitted = deps_.gate.Admit(*context, {Role::kAdmin});
  if (!admitted.ok()) return Refuse(*context, admitted.status());
  auto* reactor = context->DefaultReactor();
  auto active = std::make_shared<ActiveCall>(deps_.gate.activity());
  // The queue knows whether a job measures; the looking itself blocks.
  deps_.runner.Post([this, principal = admitted->principal, response, reactor, active] {
    const bool is_measuring = deps_.jobs.is_measuring();
    deps_.executor.SubmitFor(principal, [this, response, reactor, active, is_measuring] {
      for (const Finding& finding : deps_.diagnose(is_measuring)) {
        v1::DiagnosisFinding& out = *response->add_findings();
        out.set_check(finding.check);
        out.set_health(finding.health == Finding::Health::kOk ? v1::DiagnosisFinding::HEALTH_OK
                       : finding.health == Finding::Health::kWarning
                           ? v1::DiagnosisFinding::HEALTH_WARNING
                           : v1::DiagnosisFinding::HEALTH_FAILED);
        out.set_text(finding.text);
        for (const std::string& hint : finding.hints) out.add_hints(hint);
      }
      reactor->Finish(grpc::Status::OK);
    });
  });
  return reactor;
}

}  // namespace libreyolo::daemon
