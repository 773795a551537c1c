// Copies a stored profile's files here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/rpc/channel.h"
#include "libreyolo/profile/v1/profile.pb.h"

namespace libreyolo::client {

struct DownloadOptions {
  std::string folder = ".";  // the same relative path is made below it
  bool force = false;        // replace files that differ
  std::function<void(const std::string& file, int64_t done, int64_t total)> progress;
};

// The paths written (or found equal), in order. Each file goes to `<name>.part`, resumes where a
// broken connection or an earlier fetch left it (one that belongs to another file is replaced), is
// checked against its digest and renamed into place: nothing half-written has the file's name.
//   ARGUMENT_CONFLICT  a different file is there, and `force` is not set
//   DIGEST_MISMATCH    what came is not what the server had announced; nothing is kept of it
//   BUSY               another fetch writes the same file
absl::StatusOr<std::vector<std::string>> DownloadProfile(const Server& server,
                                                         const profile::v1::ProfileInfo& profile,
                                                         const DownloadOptions& options);

}  // namespace libreyolo::client
