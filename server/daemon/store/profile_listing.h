// What a listing shows of profiles, read from the files themselves: the index is only a cache of
// this. Pure apart from reading; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libreyolo/profile/v1/profile.pb.h"

namespace libreyolo::daemon {

// One profile file (profile.json or *_repeat.json); `shown` is its path in the workspace. The
// listed files are those of its folder, or the repeat file alone. An unreadable profile gives an
// error.
absl::StatusOr<profile::v1::ProfileInfo> DescribeProfile(const std::string& absolute,
                                                         const std::string& shown);

// Fills in `trials` and `trial_count` of a repeat's profile at `absolute`; nothing for another
// profile. Only trials of the same result count: a later job may have put its own in their place.
void DescribeTrials(const std::string& absolute, profile::v1::ProfileInfo& info);

// True for what a result's folder or repeat file may be called.
bool IsEntry(const std::string& name);

// The profile path of an entry of a project: "infer" -> "infer/profile.json"; a repeat file is one
// itself.
std::string ProfilePathOf(const std::string& entry);

// The profiles of a project, results first, then the history; `prefix` is the project's path in the
// workspace. Files that did not change since `known` was made are not parsed again.
std::vector<profile::v1::ProfileInfo> ScanProfiles(
    const std::string& project_dir, const std::string& prefix,
    const std::vector<profile::v1::ProfileInfo>& known = {});

// The profiles at some places below the project ("infer", "history/j1/infer"); places that hold
// none are left out.
std::vector<profile::v1::ProfileInfo> DescribePlaces(const std::string& project_dir,
                                                     const std::string& prefix,
                                                     const std::vector<std::string>& places);

}  // namespace libreyolo::daemon
