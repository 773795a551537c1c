// ProfileService of the API: readers on the executor, files by stream.
#pragma once

#include "libreyolo/profile/v1/profiler.grpc.pb.h"
#include "server/daemon/service/caller.h"
#include "server/daemon/service/profile_reader.h"
#include "server/daemon/store/blob_store.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/layout.h"
#include "server/daemon/store/upload_book.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

class ProfileService final : public profile::v1::ProfileService::CallbackService {
 public:
  struct Deps {
    CallGate& gate;
    Executor& executor;
    Executor& readers;  // for what may read a large trace, so that nothing short waits behind it
    ProfileReader& reader;
    const Layout& layout;
    const BlobStore& blobs;
    Index& index;
    UploadBook& uploads;
  };
  explicit ProfileService(Deps deps) : deps_(deps) {}

  using Context = grpc::CallbackServerContext;
  grpc::ServerUnaryReactor* GetSummary(Context* context,
                                       const profile::v1::GetSummaryRequest* request,
                                       profile::v1::SummaryReport* response) override;
  grpc::ServerUnaryReactor* GetMetric(Context* context,
                                      const profile::v1::GetMetricRequest* request,
                                      profile::v1::GetMetricResponse* response) override;
  grpc::ServerUnaryReactor* GetPhases(Context* context,
                                      const profile::v1::GetPhasesRequest* request,
                                      profile::v1::PhasesReport* response) override;
  grpc::ServerUnaryReactor* GetKernels(Context* context,
                                       const profile::v1::GetKernelsRequest* request,
                                       profile::v1::KernelsReport* response) override;
  grpc::ServerUnaryReactor* GetOps(Context* context, const profile::v1::GetOpsRequest* request,
                                   profile::v1::OpsReport* response) override;
  grpc::ServerUnaryReactor* Compare(Context* context, const profile::v1::CompareRequest* request,
                                    profile::v1::CompareReport* response) override;
  grpc::ServerUnaryReactor* WhatIf(Context* context, const profile::v1::WhatIfRequest* request,
                                   profile::v1::WhatIfReport* response) override;
  grpc::ServerWriteReactor<profile::v1::TimelineChunk>* ExportTimeline(
      Context* context, const profile::v1::ExportTimelineRequest* request) override;
  grpc::ServerUnaryReactor* ListProfiles(Context* context,
                                         const profile::v1::ListProfilesRequest* request,
                                         profile::v1::ListProfilesResponse* response) override;
  grpc::ServerUnaryReactor* GetProfile(Context* context,
                                       const profile::v1::GetProfileRequest* request,
                                       profile::v1::ProfileInfo* response) override;
  grpc::ServerUnaryReactor* SetPin(Context* context, const profile::v1::SetPinRequest* request,
                                   profile::v1::ProfileInfo* response) override;
  grpc::ServerUnaryReactor* FindMissingBlobs(
      Context* context, const profile::v1::FindMissingBlobsRequest* request,
      profile::v1::FindMissingBlobsResponse* response) override;
  grpc::ServerWriteReactor<profile::v1::DownloadChunk>* DownloadProfile(
      Context* context, const profile::v1::DownloadProfileRequest* request) override;
  grpc::ServerReadReactor<profile::v1::UploadBlobRequest>* UploadBlob(
      Context* context, profile::v1::UploadBlobResponse* response) override;

 private:
  // With its trials and its pin, without digests. TRACE_UNPARSABLE for what is no profile.
  absl::StatusOr<profile::v1::ProfileInfo> Describe(const ProfileReader::Resolved& named,
                                                    const std::string& typed) const;

  const Deps deps_;
};

}  // namespace libreyolo::daemon
