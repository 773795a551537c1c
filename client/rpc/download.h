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

// The paths written (or found equal), in order. Each file goes to a temporary name, resumes where a
// broken connection left it, is checked against its digest and renamed into place.
// ARGUMENT_CONFLICT names a different file that is there.
absl::StatusOr<std::vector<std::string>> DownloadProfile(const Server& server,
                                                         const profile::v1::ProfileInfo& profile,
                                                         const DownloadOptions& options);

}  // namespace libreyolo::client
