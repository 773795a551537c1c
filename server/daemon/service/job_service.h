// JobService of the API. Handlers check and post; JobManager decides.
#pragma once

#include <memory>

#include "libreyolo/profile/v1/profiler.grpc.pb.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/jobs/job_manager.h"
#include "server/daemon/jobs/job_preflight.h"
#include "server/daemon/service/caller.h"
#include "server/daemon/store/read_holds.h"
#include "server/daemon/store/upload_book.h"

namespace libreyolo::daemon {

class JobService final : public profile::v1::JobService::CallbackService {
 public:
  struct Deps {
    CallGate& gate;
    TaskRunner& runner;
    Executor& executor;
    JobManager& jobs;
    JobPreflight& preflight;
    UploadBook& uploads;
    ReadHolds& holds;
    std::function<std::string(const std::string& job_id)> log_path;
  };
  explicit JobService(Deps deps) : deps_(std::move(deps)) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const profile::v1::CreateJobRequest* request,
                                      profile::v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const profile::v1::GetJobRequest* request,
                                   profile::v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const profile::v1::ListJobsRequest* request,
                                     profile::v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const profile::v1::CancelJobRequest* request,
                                      profile::v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const profile::v1::DeleteJobRequest* request,
                                      profile::v1::DeleteJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJobLog(grpc::CallbackServerContext* context,
                                      const profile::v1::GetJobLogRequest* request,
                                      profile::v1::GetJobLogResponse* response) override;
  grpc::ServerWriteReactor<profile::v1::JobEvent>* WatchJob(
      grpc::CallbackServerContext* context, const profile::v1::WatchJobRequest* request) override;

 private:
  // A job that the caller may see. Control thread. JOB_NOT_FOUND for others too.
  absl::StatusOr<profile::v1::Job> Find(const Caller& caller, const std::string& id) const;
  // What can be known of a job before it is queued. Blocks on files.
  absl::StatusOr<JobManager::Request> Check(const Caller& caller,
                                            const profile::v1::CreateJobRequest& request) const;

  const Deps deps_;
};

}  // namespace libreyolo::daemon
