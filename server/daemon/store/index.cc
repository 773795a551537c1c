#include "server/daemon/store/index.h"

#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// The steps from an empty file to the newest schema; a file that has N of them is of version N.
// Steps are only ever added.
constexpr const char* kMigrations[] = {R"sql(
CREATE TABLE jobs (
  id TEXT PRIMARY KEY, ordinal INTEGER UNIQUE NOT NULL, principal TEXT NOT NULL, request_id TEXT,
  active INTEGER NOT NULL, spec_digest TEXT NOT NULL, device TEXT NOT NULL, sequence_reserved INTEGER NOT NULL,
  worker_pid INTEGER NOT NULL, worker_start_ticks INTEGER NOT NULL, job BLOB NOT NULL);
CREATE UNIQUE INDEX jobs_by_request ON jobs (principal, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX jobs_active ON jobs (ordinal) WHERE active = 1;
CREATE TABLE events (
  job TEXT NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL, PRIMARY KEY (job, sequence)) WITHOUT ROWID;
CREATE TABLE projects (workspace TEXT NOT NULL, project TEXT NOT NULL, PRIMARY KEY (workspace, project)) WITHOUT ROWID;
CREATE TABLE profiles (
  workspace TEXT NOT NULL, path TEXT NOT NULL, project TEXT NOT NULL, replaced INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, info BLOB NOT NULL, PRIMARY KEY (workspace, path)) WITHOUT ROWID;
CREATE INDEX profiles_by_time ON profiles (workspace, time_ms);
)sql",
                                       R"sql(
ALTER TABLE profiles ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX profiles_by_project ON profiles (workspace, project, replaced, size_bytes);
DELETE FROM profiles;
)sql",
                                       R"sql(
CREATE TABLE uploads (
  principal TEXT NOT NULL, digest TEXT NOT NULL, size_bytes INTEGER NOT NULL,
  PRIMARY KEY (principal, digest)) WITHOUT ROWID;
)sql",
                                       R"sql(
CREATE TABLE results (
  workspace TEXT NOT NULL, job TEXT NOT NULL, commit_order INTEGER NOT NULL, pinned INTEGER NOT NULL,
  PRIMARY KEY (workspace, job)) WITHOUT ROWID;
CREATE INDEX results_by_order ON results (commit_order);
)sql",
                                       // What each ended job takes, NULL until that is counted, and
                                       // the sum of each principal's, which follows by itself.
                                       R"sql(
CREATE TABLE ended_jobs (
  principal TEXT NOT NULL, ordinal INTEGER NOT NULL, job TEXT NOT NULL, size_bytes INTEGER,
  PRIMARY KEY (principal, ordinal)) WITHOUT ROWID;
CREATE UNIQUE INDEX ended_jobs_by_job ON ended_jobs (job);
CREATE INDEX ended_jobs_uncounted ON ended_jobs (job) WHERE size_bytes IS NULL;
CREATE TABLE ended_totals (principal TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER ended_job_counted AFTER UPDATE OF size_bytes ON ended_jobs BEGIN
  INSERT OR IGNORE INTO ended_totals VALUES (new.principal, 0);
  UPDATE ended_totals SET size_bytes = size_bytes + new.size_bytes - COALESCE(old.size_bytes, 0)
    WHERE principal = new.principal;
END;
CREATE TRIGGER ended_job_gone AFTER DELETE ON ended_jobs WHEN old.size_bytes IS NOT NULL BEGIN
  UPDATE ended_totals SET size_bytes = size_bytes - old.size_bytes WHERE principal = old.principal;
  DELETE FROM ended_totals WHERE principal = old.principal AND size_bytes = 0;
END;
INSERT INTO ended_jobs (principal, ordinal, job) SELECT principal, ordinal, id FROM jobs WHERE active = 0;
)sql"};
constexpr int kSchemaVersion = static_cast<int>(std::size(kMigrations));

constexpr char kJobColumns[] =
    "SELECT job, request_id, spec_digest, device, sequence_reserved, worker_pid, "
    "worker_start_ticks FROM jobs ";

absl::StatusOr<JobRecord> ReadJob(const Statement& row) {
  JobRecord record;
  if (!record.job.ParseFromString(row.Text(0))) {
    return MakeError(reason::kStoreFailed, "the index holds a job that cannot be read");
  }
  record.request_id = row.Text(1);
  record.spec_digest = row.Text(2);
  record.device = row.Text(3);
  record.sequence_reserved = row.Int(4);
  record.worker_pid = static_cast<int>(row.Int(5));
  record.worker_start_ticks = row.Int(6);
  return record;
}

absl::StatusOr<std::vector<JobRecord>> ReadJobs(Statement statement) {
  std::vector<JobRecord> records;
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return records;
    LY_ASSIGN_OR_RETURN(JobRecord record, ReadJob(statement));
    records.push_back(std::move(record));
  }
}

absl::StatusOr<std::optional<JobRecord>> ReadOneJob(Statement statement) {
  LY_ASSIGN_OR_RETURN(std::vector<JobRecord> records, ReadJobs(std::move(statement)));
  if (records.empty()) return std::nullopt;
  return std::move(records.front());
}

// A row that cannot be read is left out: the files are the truth, this is a cache.
absl::StatusOr<std::vector<v1::ProfileInfo>> ReadProfiles(Statement statement) {
  std::vector<v1::ProfileInfo> profiles;
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return profiles;
    if (!profiles.emplace_back().ParseFromString(statement.Text(0))) profiles.pop_back();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Index>> Index::Open(const std::string& path, FaultHook at) {
  LY_ASSIGN_OR_RETURN(std::unique_ptr<Sqlite> db, Sqlite::Open(path, std::move(at)));
  std::unique_ptr<Index> index(new Index(std::move(db)));
  LY_RETURN_IF_ERROR(index->Migrate());
  return index;
}

absl::Status Index::Migrate() {
  int64_t version = 0;
  {
    LY_ASSIGN_OR_RETURN(Statement statement, db_->Prepare("PRAGMA user_version"));
    LY_RETURN_IF_ERROR(statement.Step().status());
    version = statement.Int(0);
  }
  if (version > kSchemaVersion) {
    return MakeError(reason::kStoreFailed,
                     absl::StrCat("the index was written by a newer libreyolod (schema ", version,
                                  ", this one knows ", kSchemaVersion, ")"),
                     {"install that version again", "start this one with another --store"});
  }
  if (version == kSchemaVersion) return absl::OkStatus();
  return db_->InTransaction([&]() -> absl::Status {
    for (int64_t i = version; i < kSchemaVersion; ++i)
      LY_RETURN_IF_ERROR(db_->Execute(kMigrations[i]));
    return db_->Execute(absl::StrCat("PRAGMA user_version = ", kSchemaVersion).c_str());
  });
}

absl::Status Index::Put(const JobRecord& record, const v1::JobEvent* event) {
  const std::lock_guard<std::mutex> lock(mu_);
  return db_->InTransaction([&] { return PutLocked(record, event); });
}

absl::Status Index::PutLocked(const JobRecord& record, const v1::JobEvent* event) {
  LY_ASSIGN_OR_RETURN(
      Statement put,
      db_->Prepare(
          "INSERT INTO jobs (id, ordinal, principal, request_id, active, spec_digest, device, "
          "sequence_reserved, worker_pid, worker_start_ticks, job) "
          "VALUES (?, (SELECT COALESCE(MAX(ordinal), 0) + 1 FROM jobs), ?, ?, ?, ?, ?, ?, ?, ?, ?) "
          "ON CONFLICT (id) DO UPDATE SET active = excluded.active, "
          "sequence_reserved = excluded.sequence_reserved, worker_pid = excluded.worker_pid, "
          "worker_start_ticks = excluded.worker_start_ticks, job = excluded.job"));
  put.Bind(record.job.id()).Bind(record.job.principal());
  record.request_id.empty() ? put.BindNull() : put.Bind(record.request_id);
  put.Bind(int64_t{IsTerminal(record.job.state()) ? 0 : 1})
      .Bind(record.spec_digest)
      .Bind(record.device)
      .Bind(record.sequence_reserved)
      .Bind(int64_t{record.worker_pid})
      .Bind(record.worker_start_ticks)
      .BindBlob(record.job.SerializeAsString());
  LY_RETURN_IF_ERROR(put.Run());
  LY_RETURN_IF_ERROR(NoteEndLocked(record));
  if (event == nullptr) return absl::OkStatus();
  LY_ASSIGN_OR_RETURN(
      Statement append,
      db_->Prepare("INSERT OR REPLACE INTO events (job, sequence, event) VALUES (?, ?, ?)"));
  append.Bind(record.job.id()).Bind(event->sequence()).BindBlob(event->SerializeAsString());
  return append.Run();
}

absl::Status Index::NoteEndLocked(const JobRecord& record) {
  if (!IsTerminal(record.job.state())) return absl::OkStatus();
  LY_ASSIGN_OR_RETURN(Statement note,
                      db_->Prepare("INSERT OR IGNORE INTO ended_jobs (principal, ordinal, job) "
                                   "SELECT principal, ordinal, id FROM jobs WHERE id = ?"));
  note.Bind(record.job.id());
  return note.Run();
}

absl::StatusOr<std::optional<JobRecord>> Index::Find(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement statement,
                      db_->Prepare(absl::StrCat(kJobColumns, "WHERE id = ?").c_str()));
  statement.Bind(id);
  return ReadOneJob(std::move(statement));
}

absl::StatusOr<std::optional<JobRecord>> Index::FindByRequest(const std::string& principal,
                                                              const std::string& request_id) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare(absl::StrCat(kJobColumns, "WHERE principal = ? AND request_id = ?").c_str()));
  statement.Bind(principal).Bind(request_id);
  return ReadOneJob(std::move(statement));
}

absl::StatusOr<std::vector<JobRecord>> Index::LoadActive() {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare(absl::StrCat(kJobColumns, "WHERE active = 1 ORDER BY ordinal").c_str()));
  return ReadJobs(std::move(statement));
}

absl::StatusOr<std::vector<JobRecord>> Index::List(const JobQuery& query) {
  const std::lock_guard<std::mutex> lock(mu_);
  int64_t before = INT64_MAX;
  if (!query.before_id.empty()) {
    LY_ASSIGN_OR_RETURN(Statement find, db_->Prepare("SELECT ordinal FROM jobs WHERE id = ?"));
    find.Bind(query.before_id);
    LY_ASSIGN_OR_RETURN(const bool found, find.Step());
    if (!found)
      return MakeError(reason::kArgumentInvalid, "the page token is not one that this server gave",
                       {"begin again without a page token"});
    before = find.Int(0);
  }
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare(absl::StrCat(kJobColumns,
                                "WHERE ordinal < ? AND active >= ? AND (? = '' OR principal = ?) "
                                "ORDER BY ordinal DESC LIMIT ?")
                       .c_str()));
  statement.Bind(before).Bind(int64_t{query.active_only ? 1 : 0});
  statement.Bind(query.principal).Bind(query.principal).Bind(int64_t{query.limit});
  return ReadJobs(std::move(statement));
}

absl::StatusOr<std::vector<v1::JobEvent>> Index::Events(const std::string& id,
                                                        int64_t after_sequence) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare("SELECT event FROM events WHERE job = ? AND sequence > ? ORDER BY sequence"));
  statement.Bind(id).Bind(after_sequence);
  std::vector<v1::JobEvent> events;
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return events;
    if (!events.emplace_back().ParseFromString(statement.Text(0))) {
      return MakeError(reason::kStoreFailed, "the index holds an event that cannot be read");
    }
  }
}

absl::Status Index::Delete(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mu_);
  return db_->InTransaction([&] { return DeleteLocked(id); });
}

absl::Status Index::DeleteLocked(const std::string& id) {
  for (const char* sql :
       {"DELETE FROM events WHERE job = ?", "DELETE FROM ended_jobs WHERE job = ?",
        "DELETE FROM jobs WHERE id = ?"}) {
    LY_ASSIGN_OR_RETURN(Statement statement, db_->Prepare(sql));
    statement.Bind(id);
    LY_RETURN_IF_ERROR(statement.Run());
  }
  return absl::OkStatus();
}

absl::Status Index::AddProject(const Project& project) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare("INSERT OR IGNORE INTO projects (workspace, project) VALUES (?, ?)"));
  statement.Bind(project.workspace).Bind(project.project);
  return db_->InTransaction([&] { return statement.Run(); });
}

absl::StatusOr<std::vector<Index::Project>> Index::Projects() {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement statement, db_->Prepare("SELECT workspace, project FROM projects"));
  std::vector<Project> projects;
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return projects;
    projects.push_back({statement.Text(0), statement.Text(1)});
  }
}

absl::Status Index::SetProfiles(const Project& project,
                                const std::vector<v1::ProfileInfo>& profiles) {
  const std::lock_guard<std::mutex> lock(mu_);
  return db_->InTransaction([&]() -> absl::Status {
    LY_ASSIGN_OR_RETURN(Statement clear,
                        db_->Prepare("DELETE FROM profiles WHERE workspace = ? AND project = ?"));
    clear.Bind(project.workspace).Bind(project.project);
    LY_RETURN_IF_ERROR(clear.Run());
    return PutProfilesLocked(project, profiles);
  });
}

absl::Status Index::UpdateProfiles(const Project& project, const std::vector<std::string>& paths,
                                   const std::vector<v1::ProfileInfo>& profiles) {
  const std::lock_guard<std::mutex> lock(mu_);
  return db_->InTransaction([&]() -> absl::Status {
    for (const std::string& path : paths) {
      LY_ASSIGN_OR_RETURN(Statement forget,
                          db_->Prepare("DELETE FROM profiles WHERE workspace = ? AND path = ?"));
      forget.Bind(project.workspace).Bind(path);
      LY_RETURN_IF_ERROR(forget.Run());
    }
    return PutProfilesLocked(project, profiles);
  });
}

absl::Status Index::PutProfilesLocked(const Project& project,
                                      const std::vector<v1::ProfileInfo>& profiles) {
  for (const v1::ProfileInfo& info : profiles) {
    LY_ASSIGN_OR_RETURN(
        Statement put,
        db_->Prepare("INSERT OR REPLACE INTO profiles (workspace, path, project, replaced, "
                     "time_ms, size_bytes, info) VALUES (?, ?, ?, ?, ?, ?, ?)"));
    put.Bind(project.workspace)
        .Bind(info.path())
        .Bind(project.project)
        .Bind(int64_t{info.replaced() ? 1 : 0});
    put.Bind(info.time().seconds() * 1000 + info.time().nanos() / 1'000'000)
        .Bind(info.size_bytes())
        .BindBlob(info.SerializeAsString());
    LY_RETURN_IF_ERROR(put.Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::ProfileInfo>> Index::ProjectProfiles(const Project& project) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare("SELECT info FROM profiles WHERE workspace = ? AND project = ? ORDER BY path"));
  statement.Bind(project.workspace).Bind(project.project);
  return ReadProfiles(std::move(statement));
}

absl::StatusOr<int64_t> Index::HistoryBytes(const Project& project) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement statement,
                      db_->Prepare("SELECT COALESCE(SUM(size_bytes), 0) FROM profiles "
                                   "WHERE workspace = ? AND project = ? AND replaced = 1"));
  statement.Bind(project.workspace).Bind(project.project);
  LY_RETURN_IF_ERROR(statement.Step().status());
  return statement.Int(0);
}

absl::StatusOr<std::vector<v1::ProfileInfo>> Index::ListProfiles(const std::string& workspace,
                                                                 bool include_replaced,
                                                                 int64_t offset, int limit) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(const std::vector<Result> results, ResultsLocked(workspace));
  std::set<std::string> pinned;
  for (const Result& result : results) {
    if (result.pinned) pinned.insert(result.job);
  }
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare("SELECT info FROM profiles WHERE workspace = ? AND replaced <= ? "
                   "ORDER BY time_ms DESC, path LIMIT ? OFFSET ?"));
  statement.Bind(workspace)
      .Bind(int64_t{include_replaced ? 1 : 0})
      .Bind(int64_t{limit})
      .Bind(offset);
  LY_ASSIGN_OR_RETURN(std::vector<v1::ProfileInfo> profiles, ReadProfiles(std::move(statement)));
  for (v1::ProfileInfo& info : profiles) info.set_pinned(pinned.count(info.job()) > 0);
  return profiles;
}

absl::StatusOr<std::vector<Index::Listed>> Index::WorkspaceProfiles(const std::string& workspace) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare("SELECT info, project FROM profiles WHERE workspace = ? ORDER BY path"));
  statement.Bind(workspace);
  std::vector<Listed> listed;
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return listed;
    Listed& item = listed.emplace_back();
    item.project = statement.Text(1);
    if (!item.info.ParseFromString(statement.Text(0))) listed.pop_back();
  }
}

absl::Status Index::NoteCommit(const std::string& workspace, const std::string& job) {
  const std::lock_guard<std::mutex> lock(mu_);
  // A pin may have made the row before, and a result that was in place before keeps its turn.
  LY_ASSIGN_OR_RETURN(
      Statement put,
      db_->Prepare("INSERT INTO results (workspace, job, commit_order, pinned) VALUES (?, ?, "
                   "(SELECT COALESCE(MAX(commit_order), 0) + 1 FROM results), 0) "
                   "ON CONFLICT (workspace, job) DO UPDATE SET commit_order = "
                   "excluded.commit_order WHERE commit_order = 0"));
  put.Bind(workspace).Bind(job);
  return db_->InTransaction([&] { return put.Run(); });
}

absl::Status Index::SetPinned(const std::string& workspace, const std::string& job, bool pinned) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement put,
                      db_->Prepare("INSERT INTO results (workspace, job, commit_order, pinned) "
                                   "VALUES (?, ?, 0, ?) ON CONFLICT (workspace, job) "
                                   "DO UPDATE SET pinned = excluded.pinned"));
  put.Bind(workspace).Bind(job).Bind(int64_t{pinned ? 1 : 0});
  return db_->InTransaction([&] { return put.Run(); });
}

absl::StatusOr<std::optional<Index::Result>> Index::FindResult(const std::string& workspace,
                                                               const std::string& job) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement find, db_->Prepare("SELECT commit_order, pinned FROM results "
                                                   "WHERE workspace = ? AND job = ?"));
  find.Bind(workspace).Bind(job);
  LY_ASSIGN_OR_RETURN(const bool found, find.Step());
  if (!found) return std::nullopt;
  return Result{job, find.Int(0), find.Int(1) != 0};
}

absl::StatusOr<std::vector<Index::Result>> Index::Results(const std::string& workspace) {
  const std::lock_guard<std::mutex> lock(mu_);
  return ResultsLocked(workspace);
}

absl::StatusOr<std::vector<Index::Result>> Index::ResultsLocked(const std::string& workspace) {
  LY_ASSIGN_OR_RETURN(
      Statement statement,
      db_->Prepare("SELECT job, commit_order, pinned FROM results WHERE workspace = ?"));
  statement.Bind(workspace);
  std::vector<Result> results;
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return results;
    results.push_back({statement.Text(0), statement.Int(1), statement.Int(2) != 0});
  }
}

absl::Status Index::ForgetResult(const std::string& workspace, const std::string& job) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement forget,
                      db_->Prepare("DELETE FROM results WHERE workspace = ? AND job = ?"));
  forget.Bind(workspace).Bind(job);
  return db_->InTransaction([&] { return forget.Run(); });
}

absl::Status Index::AddUpload(const std::string& principal, const std::string& digest,
                              int64_t size_bytes) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement put,
                      db_->Prepare("INSERT OR REPLACE INTO uploads (principal, digest, size_bytes) "
                                   "VALUES (?, ?, ?)"));
  put.Bind(principal).Bind(digest).Bind(size_bytes);
  return db_->InTransaction([&] { return put.Run(); });
}

absl::StatusOr<bool> Index::HasUpload(const std::string& principal, const std::string& digest) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement find,
                      db_->Prepare("SELECT 1 FROM uploads WHERE principal = ? AND digest = ?"));
  find.Bind(principal).Bind(digest);
  return find.Step();
}

absl::StatusOr<int64_t> Index::StoredBytes(const std::string& principal,
                                           const std::string& workspace) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(
      Statement sum,
      db_->Prepare(
          "SELECT (SELECT COALESCE(SUM(size_bytes), 0) FROM uploads WHERE principal = ?) + "
          "(SELECT COALESCE(SUM(size_bytes), 0) FROM profiles WHERE workspace = ?)"));
  sum.Bind(principal).Bind(workspace);
  LY_RETURN_IF_ERROR(sum.Step().status());
  return sum.Int(0);
}

absl::StatusOr<Index::Totals> Index::StoreTotals() {
  const std::lock_guard<std::mutex> lock(mu_);
  Totals totals;
  LY_ASSIGN_OR_RETURN(
      Statement profiles,
      db_->Prepare("SELECT replaced, COUNT(*), SUM(size_bytes) FROM profiles GROUP BY replaced"));
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, profiles.Step());
    if (!more) break;
    const bool replaced = profiles.Int(0) != 0;
    (replaced ? totals.replaced_count : totals.profile_count) = profiles.Int(1);
    (replaced ? totals.replaced_bytes : totals.profile_bytes) = profiles.Int(2);
  }
  // A file that several sent lies there once.
  LY_ASSIGN_OR_RETURN(Statement uploads,
                      db_->Prepare("SELECT COALESCE(SUM(size), 0) FROM (SELECT MAX(size_bytes) AS "
                                   "size FROM uploads GROUP BY digest)"));
  LY_RETURN_IF_ERROR(uploads.Step().status());
  totals.upload_bytes = uploads.Int(0);
  return totals;
}

}  // namespace libreyolo::daemon
