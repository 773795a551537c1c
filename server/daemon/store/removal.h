// What a removal leaves in .staging while it is under way: a folder "<job id>.removing". Once it
// stands, all parts of the job's result will go there and then be deleted.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/daemon/store/layout.h"

namespace libreyolo::daemon {

inline constexpr char kRemovalSuffix[] = ".removing";

inline bool IsRemoval(const std::string& staging_name) {
  return absl::EndsWith(staging_name, kRemovalSuffix);
}

inline std::string RemovalDir(const std::string& project_dir, const std::string& job_id) {
  return absl::StrCat(StagingDir(project_dir, job_id), kRemovalSuffix);
}

// The places below the project where parts of the job's result stand ("infer_0",
// "history/j1/infer"), trials first. Results that somebody moved elsewhere are not found.
std::vector<std::string> PlacesOf(const std::string& project_dir, const std::string& job_id);

}  // namespace libreyolo::daemon
