// DeviceService and ServerService of the API: what the server owns and what it is.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/diagnosis.h"
#include "server/daemon/jobs/job_manager.h"
#include "server/daemon/service/caller.h"
#include "server/daemon/store/retention.h"

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
    const Retention& retention;
    profile::v1::Capabilities fixed;  // what does not change while the daemon runs
    // Both on the control thread.
    std::function<absl::Status(bool cordoned)> set_cordon;
    std::function<void()> drain;
    // On the executor.
    std::function<std::vector<Finding>(bool is_measuring)> diagnose;
  };
  explicit ServerService(Deps deps) : deps_(std::move(deps)) {}
  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context,
                                            const profile::v1::GetCapabilitiesRequest* request,
                                            profile::v1::Capabilities* response) override;

  grpc::ServerUnaryReactor* SetCordon(grpc::CallbackServerContext* context,
                                      const profile::v1::SetCordonRequest* request,
                                      profile::v1::Capabilities* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const profile::v1::DrainRequest* request,
                                  profile::v1::Capabilities* response) override;

  grpc::ServerUnaryReactor* Diagnose(grpc::CallbackServerContext* context,
                                     const profile::v1::DiagnoseRequest* request,
                                     profile::v1::Diagnosis* response) override;

 private:
  // What changes. Control thread.
  void Describe(const Caller& caller, profile::v1::Capabilities& out) const;

  const Deps deps_;
};

}  // namespace libreyolo::daemon
