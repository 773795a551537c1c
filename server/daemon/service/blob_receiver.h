// The server's end of UploadBlob.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "libreyolo/profile/v1/profiler.pb.h"
#include "server/daemon/service/caller.h"
#include "server/daemon/store/blob_store.h"
#include "server/daemon/store/upload_book.h"
#include "server/daemon/task_runner.h"

namespace libreyolo::daemon {

struct BlobReceiverDeps {
  CallGate& gate;
  Executor& executor;
  const BlobStore& blobs;
  UploadBook& book;
};

// A reactor that looks after itself. Its work runs on the executor.
grpc::ServerReadReactor<profile::v1::UploadBlobRequest>* ReceiveBlob(
    const BlobReceiverDeps& deps, grpc::CallbackServerContext& context, Caller caller,
    profile::v1::UploadBlobResponse& response);

}  // namespace libreyolo::daemon
