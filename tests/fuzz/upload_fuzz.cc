// Any stream of UploadBlob messages, as a hostile client may send it. Each frame of the input is
// one serialised message: two bytes of length, then the message.
//
// Only content under its own digest may ever appear in the store. What else stays is what an upload
// that broke off may go on from: no longer than was sent, and not among the blobs.
// No input guesses a digest, so the first byte may ask that the header gets the right one.
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "libreyolo/profile/v1/profiler.pb.h"
#include "server/daemon/service/blob_upload.h"
#include "tests/support/temp_dir.h"

namespace {

using libreyolo::daemon::BlobStore;
using libreyolo::daemon::BlobUpload;
using libreyolo::profile::v1::UploadBlobRequest;
namespace fs = std::filesystem;

constexpr int64_t kMaxBlobBytes = 4096;

std::vector<UploadBlobRequest> ReadFrames(const uint8_t* data, size_t size) {
  std::vector<UploadBlobRequest> frames;
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] + 256u * data[1], size - 2);
    UploadBlobRequest request;
    if (request.ParseFromArray(data + 2, static_cast<int>(length))) frames.push_back(request);
    data += 2 + length;
    size -= 2 + length;
  }
  return frames;
}

void GiveRightDigest(std::vector<UploadBlobRequest>& frames) {
  std::string content;
  for (const UploadBlobRequest& frame : frames) {
    if (!frame.has_header()) content += frame.data();
  }
  for (UploadBlobRequest& frame : frames) {
    if (!frame.has_header()) continue;
    frame.mutable_header()->set_digest(libreyolo::Sha256Hex(content));
    frame.mutable_header()->set_size_bytes(static_cast<int64_t>(content.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > (64 << 10)) return 0;
  std::vector<UploadBlobRequest> frames = ReadFrames(data + 1, size - 1);
  if (data[0] % 2 == 1) GiveRightDigest(frames);
  static const libreyolo::testing::TempDir* const folder = new libreyolo::testing::TempDir();
  const BlobStore blobs(folder->path() + "/blobs", kMaxBlobBytes);
  std::string content;
  {
    BlobUpload upload(blobs, "fuzz");
    bool ok = true;
    for (const UploadBlobRequest& frame : frames) {
      if (!frame.has_header()) content += frame.data();
      ok = upload.Take(frame).ok();
      if (!ok) break;
    }
    if (ok && upload.End().ok()) {
      LY_CHECK(upload.digest() == libreyolo::Sha256Hex(content)) << "content under a foreign name";
      const auto stored = libreyolo::ReadFile(blobs.Path(upload.digest()));
      LY_CHECK(stored.ok() && *stored == content) << "the store holds something else";
      fs::remove(blobs.Path(upload.digest()));
    }
  }
  std::vector<fs::path> parts;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder->path())) {
    if (entry.is_directory()) continue;
    const std::string path = entry.path().string();
    LY_CHECK(absl::StrContains(path, ".partial/")) << path << " is left behind";
    LY_CHECK(entry.file_size() <= content.size()) << path << " is longer than what was sent";
    parts.push_back(entry.path());
  }
  for (const fs::path& part : parts) fs::remove(part);
  return 0;
}
