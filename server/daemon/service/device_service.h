// DeviceService and ServerService of the API: what the server owns and what it is.
#pragma once

#include "libreyolo/profile/v1/profiler.grpc.pb.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/jobs/job_manager.h"
#include "server/daemon/service/caller.h"

namespace libreyolo::daemon {

class DeviceService final : public profile::v1::DeviceService::CallbackService {
 public:
  struct Deps {
    CallGate& gate;
    TaskRunner& runner;
    Executor& executor;
    DeviceInventory& devices;
    JobManager& jobs;
  };
  explicit DeviceService(Deps deps) : deps_(deps) {}
  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context,
                                        const profile::v1::ListDevicesRequest* request,
                                        profile::v1::ListDevicesResponse* response) override;

 private:
  const Deps deps_;
};

class ServerService final : public profile::v1::ServerService::CallbackService {
 public:
  struct Deps {
    CallGate& gate;
    TaskRunner& runner;
    Executor& executor;
    DeviceInventory& devices;
    JobManager& jobs;
    profile::v1::Capabilities fixed;  // what does not change while the daemon runs
  };
  explicit ServerService(Deps deps) : deps_(std::move(deps)) {}
  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context,
                                            const profile::v1::GetCapabilitiesRequest* request,
                                            profile::v1::Capabilities* response) override;

 private:
  const Deps deps_;
};

}  // namespace libreyolo::daemon
