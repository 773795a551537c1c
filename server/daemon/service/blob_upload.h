// The rules of an UploadBlob stream: one header, then data, then the end. One thread at a time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "libreyolo/profile/v1/profiler.pb.h"
#include "server/daemon/store/blob_store.h"

namespace libreyolo::daemon {

class BlobUpload {
 public:
  // `blobs` must outlive it. What comes is kept for `principal` when the upload breaks off.
  BlobUpload(const BlobStore& blobs, std::string principal)
      : blobs_(blobs), principal_(std::move(principal)) {}

  // The stream's next message. ARGUMENT_INVALID for data before the header or a second header, and
  // the errors of BlobStore::Begin and BlobWriter::Append. After an error the upload is over.
  absl::Status Take(const profile::v1::UploadBlobRequest& request);
  // The stream's end: the blob exists from now on. ARGUMENT_INVALID without a header, and the
  // errors of BlobWriter::Finish.
  absl::Status End();

  // From the header; empty before it.
  const std::string& digest() const { return digest_; }

 private:
  const BlobStore& blobs_;
  const std::string principal_;
  std::string digest_;
  std::unique_ptr<BlobWriter> writer_;
};

}  // namespace libreyolo::daemon
