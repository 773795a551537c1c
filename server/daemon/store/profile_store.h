// Makes results visible, all at once, and never loses one: a commit swaps the new folders in and
// moves what they replace to history/<job id>/. What was cut off by a crash is completed or swept
// at the next start. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libreyolo/profile/v1/profile.pb.h"

namespace libreyolo::daemon {

// The member of profile.json that names the job which made it.
inline constexpr char kJobKey[] = "job";

struct ResultNames {
  std::string base;  // "infer" or "prof"
  int trial_count = 1;
  // "infer", or "infer_2" of several.
  std::string Trial(int trial) const;
  // "infer_repeat.json" or "profile_repeat.json"; empty for a single trial.
  std::string RepeatFile() const;
  // What a reader is pointed at, relative to the project.
  std::string Profile() const;
  // The folders, in order, then the repeat file.
  std::vector<std::string> Entries() const;
};

struct RecoveredCommit {
  std::string job_id;
  ResultNames names;
};

class ProfileStore {
 public:
  // Called with a point's name before each step that changes what a reader sees ("before-exchange
  // infer"). An error ends the commit right there, as a crash would: tests only.
  using FaultHook = std::function<absl::Status(const std::string& point)>;

  explicit ProfileStore(std::string lock_dir, FaultHook hook = nullptr)
      : lock_dir_(std::move(lock_dir)), hook_(std::move(hook)) {}

  // The staging folder `<project_dir>/.staging/<job id>` holds every entry of `names`, complete.
  // STORE_FAILED leaves either the old results or all of the new ones for Recover() to finish.
  absl::Status Commit(const std::string& project_dir, const std::string& job_id,
                      const ResultNames& names);

  // Completes commits whose decision was written down, sweeps the other staging folders.
  absl::StatusOr<std::vector<RecoveredCommit>> Recover(const std::string& project_dir);

  void Discard(const std::string& project_dir, const std::string& job_id);

  // The profiles of a project, read from the files themselves; `prefix` is the project's path in
  // the workspace.
  std::vector<profile::v1::ProfileInfo> Scan(const std::string& project_dir,
                                             const std::string& prefix) const;

 private:
  absl::Status At(const std::string& point) const;
  absl::Status FinishCommit(const std::string& project_dir, const std::string& job_id,
                            const ResultNames& names);
  absl::Status SwapIn(const std::string& project_dir, const std::string& job_id,
                      const std::string& entry);
  absl::Status MoveToHistory(const std::string& project_dir, const std::string& from,
                             const std::string& entry);

  const std::string lock_dir_;
  const FaultHook hook_;
};

// What a listing shows of one profile file; `files` are those of its folder. An unreadable profile
// gives an error.
absl::StatusOr<profile::v1::ProfileInfo> DescribeProfile(const std::string& absolute,
                                                         const std::string& shown);

}  // namespace libreyolo::daemon
