// Where things are on disk, and that no path leaves its workspace. Paths in and out are plain text;
// nothing here makes a folder. Thread-safe.
//
//   <workspace>/<project>/{prof,infer}/        results          <project>/{prof,infer}_N/,
//   *_repeat.json   of a repeat <workspace>/<project>/history/<job id>/    what they replaced
//   <workspace>/<project>/.staging/<job id>/   results in the making; swept at start-up
//   <state>/index.sqlite, daemon.log, job_logs/, blobs/, inputs/
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/confined_path.h"

namespace libreyolo::daemon {

struct StoreConfig {
  std::string state_dir;
  // A local daemon has one workspace, the user's folder. A served store has named ones below this
  // folder.
  std::string workspace_root;
  bool local = false;
};

class Layout {
 public:
  explicit Layout(StoreConfig config) : config_(std::move(config)) {}

  const StoreConfig& config() const { return config_; }
  LinkRule link_rule() const {
    return config_.local ? LinkRule::kOwnersMayLeave : LinkRule::kStayInside;
  }
  // The folder of a workspace; "" is the default one. A served store's need not exist: its first
  // result makes it. ARGUMENT_INVALID for a bad name.
  absl::StatusOr<std::string> WorkspaceRoot(const std::string& workspace) const;
  // The absolute path of an existing file or folder below the workspace. NotFound; PATH_REFUSED for
  // what leads out of it (a served store follows no symlink out; a local daemon follows those of
  // its user).
  absl::StatusOr<std::string> ResolveExisting(const std::string& workspace,
                                              const std::string& relative) const;
  // Absolute path of a project's folder, which need not exist.
  absl::StatusOr<std::string> ProjectDir(const std::string& workspace,
                                         const std::string& project) const;
  // PROJECT_NOT_WRITABLE names the folder and why; leaves nothing behind.
  absl::Status CheckProjectWritable(const std::string& workspace, const std::string& project) const;

  std::string JobLogDir() const { return config_.state_dir + "/job_logs"; }
  std::string JobLog(const std::string& job_id) const {
    return JobLogDir() + "/" + job_id + ".log";
  }
  std::string BlobDir() const { return config_.state_dir + "/blobs"; }
  // Folders in which uploaded files stand under their names while a job reads them.
  std::string InputDir(const std::string& job_id) const {
    return config_.state_dir + "/inputs/" + job_id;
  }

 private:
  const StoreConfig config_;
};

std::string StagingDir(const std::string& project_dir, const std::string& job_id);

}  // namespace libreyolo::daemon
