#include "server/daemon/service/blob_upload.h"

#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {

absl::Status BlobUpload::Take(const profile::v1::UploadBlobRequest& request) {
  if (request.has_header()) {
    if (writer_ != nullptr) return MakeError(reason::kArgumentInvalid, "a second header came");
    digest_ = request.header().digest();
    const auto& header = request.header();
    LY_ASSIGN_OR_RETURN(writer_,
                        blobs_.Begin(digest_, header.size_bytes(), principal_, header.offset()));
    return absl::OkStatus();
  }
  if (writer_ == nullptr) {
    return MakeError(reason::kArgumentInvalid, "data came before the header");
  }
  return writer_->Append(request.data());
}

absl::Status BlobUpload::End() {
  if (writer_ == nullptr) return MakeError(reason::kArgumentInvalid, "no header came");
  return writer_->Finish();
}

}  // namespace libreyolo::daemon
