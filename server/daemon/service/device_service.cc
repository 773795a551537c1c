#include "server/daemon/service/device_service.h"

#include "server/daemon/service/unary.h"

namespace libreyolo::daemon {

namespace v1 = ::libreyolo::profile::v1;

grpc::ServerUnaryReactor* DeviceService::ListDevices(grpc::CallbackServerContext* context,
                                                     const v1::ListDevicesRequest*,
                                                     v1::ListDevicesResponse* response) {
  deps_.gate.Admit(*context);
  auto* reactor = context->DefaultReactor();
  auto active = std::make_shared<ActiveCall>(deps_.gate.activity());
  // NVML may take long or hang: never on the control thread, which knows the leases.
  deps_.executor.Submit([this, response, reactor, active] {
    for (const DeviceInfo& info : deps_.devices.List()) {
      v1::Device& device = *response->add_devices();
      device.set_id(info.id);
      device.set_description(info.description);
      device.set_uuid(info.uuid);
      device.set_usable(true);
      device.set_memory_total_bytes(info.memory_total_bytes);
      if (info.memory_used_bytes.has_value()) device.set_memory_used_bytes(*info.memory_used_bytes);
      device.set_cpu_count(info.cpu_count);
      for (const DeviceInfo::Process& process : info.processes) {
        v1::DeviceProcess& out = *device.add_processes();
        out.set_pid(process.pid);
        out.set_name(process.name);
        if (process.memory_bytes.has_value()) out.set_memory_bytes(*process.memory_bytes);
      }
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

grpc::ServerUnaryReactor* ServerService::GetCapabilities(grpc::CallbackServerContext* context,
                                                         const v1::GetCapabilitiesRequest*,
                                                         v1::Capabilities* response) {
  deps_.gate.Admit(*context);
  auto* reactor = context->DefaultReactor();
  auto active = std::make_shared<ActiveCall>(deps_.gate.activity());
  deps_.executor.Submit([this, response, reactor, active] {
    *response = deps_.fixed;
    response->set_cuda_unusable_reason(deps_.devices.CudaUnusableReason());
    response->set_cuda_usable(response->cuda_unusable_reason().empty());
    deps_.runner.Post([this, response, reactor, active] {
      response->set_active_jobs(deps_.jobs.active_count());
      response->set_draining(deps_.jobs.draining());
      reactor->Finish(grpc::Status::OK);
    });
  });
  return reactor;
}

}  // namespace libreyolo::daemon
