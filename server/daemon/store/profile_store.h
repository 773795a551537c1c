// Makes results visible, all at once, and never loses one: a commit swaps the new folders in and
// moves what they replace to history/<job id>/. What was cut off by a crash is completed or swept
// at the next start. Removes them likewise. Thread-safe; one change of a project at a time, also
// between daemons.
//
// The decision is the file COMMIT in the staging folder: before it stands, nothing but staging has
// changed; once it stands, the new result will be completed, by this commit, the project's next one
// or the next start. It names for each replaced entry where that goes, so that a second attempt
// goes on exactly where the first one ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "server/daemon/store/commit_plan.h"
#include "server/daemon/store/fault_points.h"
#include "server/daemon/store/profile_listing.h"

namespace libreyolo::daemon {

struct RecoveredCommit {
  std::string job_id;
  ResultNames names;
};

class ProfileStore {
 public:
  explicit ProfileStore(std::string lock_dir, StoreHooks hooks = {})
      : lock_dir_(std::move(lock_dir)), hooks_(std::move(hooks)) {}

  // The staging folder `<project_dir>/.staging/<job id>` holds every entry of `names`, complete.
  // `changes` receives the places below the project whose content changed ("infer",
  // "history/j1/infer"), also when the commit failed. STORE_FAILED leaves the old results as they
  // were or, after the first swap, a commit that is completed later; the error says which.
  absl::Status Commit(const std::string& project_dir, const std::string& job_id,
                      const ResultNames& names, std::vector<std::string>* changes = nullptr);

  // Completes commits whose decision was written down, oldest first, and sweeps the staging folders
  // of the other jobs for which `ours` holds (none given: of all): another daemon's job may be at
  // work in the same folder. A commit that cannot be completed now is logged and kept. STORE_FAILED
  // when the project cannot be locked.
  absl::StatusOr<std::vector<RecoveredCommit>> Recover(
      const std::string& project_dir,
      const std::function<bool(const std::string&)>& ours = nullptr);

  // True when the job's result stands in its place or in the history.
  static bool IsCommitted(const std::string& project_dir, const std::string& job_id,
                          const ResultNames& names);

  // Removes a staging folder, unless its commit was decided: it may then hold the old results.
  void Discard(const std::string& project_dir, const std::string& job_id);

  // Removes a job's result with all its parts from its place or the history: all of it, by this
  // call or, once begun, by any later one in this project or the next start. `run_if_free` is
  // handed the absolute paths of the parts and what moves them out of sight: it calls that, or
  // returns false to leave them. False also when there is no such result, or when a commit in the
  // project waits to be completed. `changes` as of Commit().
  using RunIfFree = absl::FunctionRef<bool(const std::vector<std::string>& paths,
                                           absl::FunctionRef<void()> move)>;
  absl::StatusOr<bool> Remove(const std::string& project_dir, const std::string& job_id,
                              RunIfFree run_if_free, std::vector<std::string>* changes = nullptr);

  // ScanProfiles().
  std::vector<profile::v1::ProfileInfo> Scan(
      const std::string& project_dir, const std::string& prefix,
      const std::vector<profile::v1::ProfileInfo>& known = {}) const {
    return ScanProfiles(project_dir, prefix, known);
  }

  // A fault point of a step that leads to a commit.
  absl::Status At(const std::string& point) const;

 private:
  struct Run;  // one commit under way
  struct Locks {
    UniqueFd state;
    UniqueFd folder;
  };

  // One writer in a project.
  absl::StatusOr<Locks> LockProject(const std::string& project_dir) const;
  static bool HasDecidedCommit(const std::string& project_dir);
  // The second half of Remove(), for all that was begun.
  absl::Status CompleteRemovals(const std::string& project_dir, std::vector<std::string>& changes);
  absl::Status BeginRemoval(const std::string& project_dir, const std::string& target);
  absl::Status MoveOut(const std::string& project_dir, const std::string& job_id,
                       std::vector<std::string>& changes);
  absl::Status DeleteMovedOut(const std::string& project_dir, const std::string& job_id);

  absl::Status Prepare(Run& run, const ResultNames& names);
  absl::Status RollForwardOthers(Run& run);
  absl::Status Finish(Run& run);
  absl::Status SwapIn(Run& run, const std::string& entry);
  absl::Status MoveToHistory(Run& run, const std::string& from, const std::string& entry);
  absl::Status Fsync(const std::string& path, const std::string& label) const;
  absl::Status FsyncTree(const std::string& path, const std::string& label) const;
  // Sets `*error` to the errno of a failure.
  absl::Status Rename(const std::string& from, const std::string& to, unsigned flags,
                      const std::string& label, int* error) const;
  // With the flag, or without it where the file system knows none.
  absl::Status RenameNoReplace(const std::string& from, const std::string& to,
                               const std::string& label) const;

  const std::string lock_dir_;
  const StoreHooks hooks_;
};

}  // namespace libreyolo::daemon
