// The daemon's database: jobs with their events (the truth about jobs), which results were
// committed in which order and which are pinned (the truth about that), and which projects and
// profiles there are (a cache of the file system, which start-up brings up to date). Thread-safe:
// it locks itself.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libreyolo/profile/v1/profile.pb.h"
#include "server/daemon/jobs/job_store.h"
#include "server/daemon/store/sqlite.h"

namespace libreyolo::daemon {

class Index : public JobStore {
 public:
  // Opens or makes <state>/index.sqlite. STORE_FAILED for one that a newer libreyolod wrote, or
  // that is damaged.
  static absl::StatusOr<std::unique_ptr<Index>> Open(const std::string& path, FaultHook at = {});

  absl::Status Put(const JobRecord& record, const profile::v1::JobEvent* event) override;
  absl::StatusOr<std::optional<JobRecord>> Find(const std::string& id) override;
  absl::StatusOr<std::optional<JobRecord>> FindByRequest(const std::string& principal,
                                                         const std::string& request_id) override;
  absl::StatusOr<std::vector<JobRecord>> LoadActive() override;
  absl::StatusOr<std::vector<JobRecord>> List(const JobQuery& query) override;
  absl::StatusOr<std::vector<profile::v1::JobEvent>> Events(const std::string& id,
                                                            int64_t after_sequence) override;
  absl::Status Delete(const std::string& id) override;
  absl::StatusOr<bool> HasJob(const std::string& id);

  // What the records of ended jobs take; index_ended_jobs.cc. Counts some that are not counted yet:
  // row and events, and what `log_bytes` says of each. Their ids; call until there are none.
  absl::StatusOr<std::vector<std::string>> CountEnded(
      absl::FunctionRef<int64_t(const std::string& id)> log_bytes);
  // Whose counted ones take more than `max_bytes`.
  absl::StatusOr<std::vector<std::string>> PrincipalsOver(int64_t max_bytes);
  struct EndedJob {
    std::string id;
    int64_t size_bytes = 0;
  };
  // Forgets the oldest counted ones of a principal, but those in `keep` and the newest, until what
  // stays takes `max_bytes` at most; some at once: call until there are none. What is known of
  // their results stays.
  absl::StatusOr<std::vector<EndedJob>> ForgetEnded(const std::string& principal, int64_t max_bytes,
                                                    const std::set<std::string>& keep);

  // Projects that jobs have written to: where staging may be left and profiles are found.
  struct Project {
    std::string workspace;
    std::string project;
  };
  absl::Status AddProject(const Project& project);
  absl::StatusOr<std::vector<Project>> Projects();

  // Replaces what is known of one project's profiles.
  absl::Status SetProfiles(const Project& project,
                           const std::vector<profile::v1::ProfileInfo>& profiles);
  // After a commit: forgets the profiles at `paths` (in the workspace), then adds `profiles`.
  absl::Status UpdateProfiles(const Project& project, const std::vector<std::string>& paths,
                              const std::vector<profile::v1::ProfileInfo>& profiles);
  absl::StatusOr<std::vector<profile::v1::ProfileInfo>> ProjectProfiles(const Project& project);
  // What the replaced results of a project take on disk.
  absl::StatusOr<int64_t> HistoryBytes(const Project& project);
  // Newest first, from `offset` on; with `pinned`.
  absl::StatusOr<std::vector<profile::v1::ProfileInfo>> ListProfiles(const std::string& workspace,
                                                                     bool include_replaced,
                                                                     int64_t offset, int limit);

  struct Listed {
    std::string project;
    profile::v1::ProfileInfo info;  // without `pinned`
  };
  absl::StatusOr<std::vector<Listed>> WorkspaceProfiles(const std::string& workspace);

  // What is known of a job's result besides its files.
  struct Result {
    std::string job;
    int64_t commit_order = 0;  // greater is later, whatever the clock says; 0: not known
    bool pinned = false;
  };
  // The job's result was put in place, after all others that were noted. The first note counts.
  absl::Status NoteCommit(const std::string& workspace, const std::string& job);
  absl::Status SetPinned(const std::string& workspace, const std::string& job, bool pinned);
  absl::StatusOr<std::optional<Result>> FindResult(const std::string& workspace,
                                                   const std::string& job);
  absl::StatusOr<std::vector<Result>> Results(const std::string& workspace);
  absl::Status ForgetResult(const std::string& workspace, const std::string& job);

  // Uploads, each by who sent it.
  absl::Status AddUpload(const std::string& principal, const std::string& digest,
                         int64_t size_bytes);
  absl::StatusOr<bool> HasUpload(const std::string& principal, const std::string& digest);
  // What a principal's uploads and the results in a workspace take on disk.
  absl::StatusOr<int64_t> StoredBytes(const std::string& principal, const std::string& workspace);

  // Everything in the store: profiles, those in history, uploads.
  struct Totals {
    int64_t profile_count = 0;
    int64_t profile_bytes = 0;
    int64_t replaced_count = 0;
    int64_t replaced_bytes = 0;
    int64_t upload_bytes = 0;
  };
  absl::StatusOr<Totals> StoreTotals();

 private:
  explicit Index(std::unique_ptr<Sqlite> db) : db_(std::move(db)) {}
  absl::Status Migrate();
  absl::Status PutLocked(const JobRecord& record, const profile::v1::JobEvent* event);
  absl::Status NoteEndLocked(const JobRecord& record);
  absl::Status DeleteLocked(const std::string& id);
  absl::Status CountLocked(const std::string& id, int64_t log_bytes);
  absl::StatusOr<std::vector<EndedJob>> OldestEndedLocked(const std::string& principal,
                                                          int64_t max_bytes,
                                                          const std::set<std::string>& keep);
  absl::StatusOr<std::vector<Result>> ResultsLocked(const std::string& workspace);
  absl::Status PutProfilesLocked(const Project& project,
                                 const std::vector<profile::v1::ProfileInfo>& profiles);

  std::mutex mu_;  // guards db_
  std::unique_ptr<Sqlite> db_;
};

}  // namespace libreyolo::daemon
