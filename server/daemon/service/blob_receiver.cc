#include "server/daemon/service/blob_receiver.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "server/daemon/service/blob_upload.h"
#include "server/daemon/service/stall_guard.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

class BlobReceiver : public grpc::ServerReadReactor<v1::UploadBlobRequest> {
 public:
  BlobReceiver(const BlobReceiverDeps& deps, grpc::CallbackServerContext& context, Caller caller,
               v1::UploadBlobResponse& response)
      : active_(deps.gate.activity()),
        executor_(deps.executor),
        book_(deps.book),
        caller_(std::move(caller)),
        upload_(std::in_place, deps.blobs, caller_.principal),
        guard_(StallGuard::Start(context, deps.gate.stall_timeout())),
        response_(response) {
    Read();
  }

  void OnReadDone(bool ok) override {
    guard_->Heard();
    executor_.SubmitFor(caller_.principal, [this, ok] {
      if (ended_) return;
      const absl::Status status = ok ? Take() : End();
      if (ok && status.ok()) {
        request_.Clear();
        return Read();
      }
      ended_ = true;
      CallGate::Audit(caller_, {Role::kSubmitter, "upload_blob", upload_->digest()}, status);
      // Whoever has the answer finds no file of a refused upload, and no room taken twice.
      upload_.reset();
      room_.reset();
      Finish(rpc::ToGrpcStatus(status));
    });
  }
  void OnDone() override {
    guard_->Stop();
    delete this;
  }

 private:
  void Read() {
    guard_->Await();
    StartRead(&request_);
  }
  absl::Status Take() {
    if (request_.has_header() && room_ == nullptr) {
      const auto& header = request_.header();
      size_bytes_ = header.size_bytes();
      LY_ASSIGN_OR_RETURN(const std::string workspace, WorkspaceFor(caller_, ""));
      LY_ASSIGN_OR_RETURN(
          room_, book_.Reserve(caller_.principal, workspace, header.digest(), size_bytes_));
    }
    LY_RETURN_IF_ERROR(upload_->Take(request_));
    response_.set_digest(upload_->digest());
    return absl::OkStatus();
  }
  absl::Status End() {
    LY_RETURN_IF_ERROR(upload_->End());
    return book_.Add(caller_.principal, upload_->digest(), size_bytes_);
  }

  ActiveCall active_;
  Executor& executor_;
  UploadBook& book_;
  const Caller caller_;
  std::unique_ptr<UploadBook::Reservation> room_;
  int64_t size_bytes_ = 0;
  std::optional<BlobUpload> upload_;  // until the end
  const std::shared_ptr<StallGuard> guard_;
  v1::UploadBlobResponse& response_;
  v1::UploadBlobRequest request_;
  bool ended_ = false;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadBlobRequest>* ReceiveBlob(const BlobReceiverDeps& deps,
                                                            grpc::CallbackServerContext& context,
                                                            Caller caller,
                                                            v1::UploadBlobResponse& response) {
  return new BlobReceiver(deps, context, std::move(caller), response);
}

}  // namespace libreyolo::daemon
