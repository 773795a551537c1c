#include "server/daemon/store/profile_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "server/daemon/store/layout.h"
#include "server/daemon/store/removal.h"
#include "server/daemon/store/result_files.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kManifest[] = "COMMIT";

std::string ManifestPath(const std::string& project_dir, const std::string& job_id) {
  return absl::StrCat(StagingDir(project_dir, job_id), "/", kManifest);
}

absl::Status Lock(int fd, const std::string& path) {
  while (flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "lock", path);
  }
  return absl::OkStatus();
}

// One committer per project. The lock file stands in the state folder, so that a project holds
// results only.
absl::StatusOr<UniqueFd> LockInState(const std::string& lock_dir, const std::string& project_dir) {
  LY_RETURN_IF_ERROR(MakeDirectories(lock_dir));
  const std::string path =
      absl::StrCat(lock_dir, "/", Sha256Hex(project_dir).substr(0, 16), ".lock");
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return ErrnoStatus(errno, "open", path);
  LY_RETURN_IF_ERROR(Lock(fd.get(), path));
  return fd;
}

// Keeps out another daemon with another state folder. Some network file systems lock no folders:
// there each daemon has only its own lock.
UniqueFd LockFolder(const std::string& project_dir) {
  UniqueFd fd(open(project_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) (void)Lock(fd.get(), project_dir);
  return fd;
}

// Some network and sandboxed file systems know no flags.
bool FlagsUnsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

// A new folder and its parents reach the disk together with what is in them.
void FsyncParents(const std::string& path) {
  for (fs::path part(path); part.has_relative_path(); part = part.parent_path()) {
    if (!FsyncPath(part).ok()) return;  // not ours to read, so not made by us
  }
}

// The jobs below .staging whose commit was decided, oldest decision first.
std::vector<std::string> DecidedCommits(const std::string& project_dir) {
  std::vector<std::pair<fs::file_time_type, std::string>> decided;
  for (const std::string& job_id : NamesIn(absl::StrCat(project_dir, "/.staging"))) {
    std::error_code error;
    const auto time = fs::last_write_time(ManifestPath(project_dir, job_id), error);
    if (!error) decided.emplace_back(time, job_id);
  }
  std::sort(decided.begin(), decided.end());
  std::vector<std::string> jobs;
  for (auto& [time, job_id] : decided) jobs.push_back(std::move(job_id));
  return jobs;
}

void RemoveStaging(const std::string& project_dir, const std::string& job_id) {
  std::error_code ignored;  // what is left is swept at the next start
  fs::remove_all(StagingDir(project_dir, job_id), ignored);
  fs::remove(absl::StrCat(project_dir, "/.staging"), ignored);
}

}  // namespace

// ---- steps that reach the disk

absl::Status ProfileStore::At(const std::string& point) const {
  return AtFaultPoint(hooks_.at, point);
}

absl::Status ProfileStore::Fsync(const std::string& path, const std::string& label) const {
  LY_RETURN_IF_ERROR(At(absl::StrCat("fsync ", label)));
  LY_RETURN_IF_ERROR(FsyncPath(path));
  (void)At(absl::StrCat("after fsync ", label));  // a place to crash at; it has happened
  return absl::OkStatus();
}

absl::Status ProfileStore::FsyncTree(const std::string& path, const std::string& label) const {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fs::directory_iterator entries(path, error);
    if (error) return ErrnoStatus(error.value(), "read", path);
    for (const auto& entry : entries)
      LY_RETURN_IF_ERROR(FsyncTree(entry.path(), entry.path().filename()));
  }
  return Fsync(path, label);
}

absl::Status ProfileStore::Rename(const std::string& from, const std::string& to, unsigned flags,
                                  const std::string& label, int* error) const {
  *error = 0;
  LY_RETURN_IF_ERROR(At(label));
  if (flags != 0 && !At("rename flags").ok()) {
    *error = EINVAL;
  } else if (hooks_.rename) {
    *error = hooks_.rename(from.c_str(), to.c_str(), flags);
  } else if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) != 0) {
    *error = errno;
  }
  if (*error != 0) return ErrnoStatus(*error, "rename", absl::StrCat(from, " to ", to));
  (void)At(absl::StrCat("after ", label));  // a place to crash at; it has happened
  return absl::OkStatus();
}

absl::Status ProfileStore::RenameNoReplace(const std::string& from, const std::string& to,
                                           const std::string& label) const {
  int error = 0;
  const absl::Status moved = Rename(from, to, RENAME_NOREPLACE, label, &error);
  if (!FlagsUnsupported(error)) return moved;
  // By hand: the project's lock is held, so only a stranger could come between.
  if (Exists(to)) return ErrnoStatus(EEXIST, "rename", absl::StrCat(from, " to ", to));
  return Rename(from, to, 0, absl::StrCat("plain ", label), &error);
}

absl::StatusOr<ProfileStore::Locks> ProfileStore::LockProject(
    const std::string& project_dir) const {
  Locks locks;
  LY_ASSIGN_OR_RETURN(locks.state, LockInState(lock_dir_, project_dir));
  locks.folder = LockFolder(project_dir);
  return locks;
}

bool ProfileStore::HasDecidedCommit(const std::string& project_dir) {
  return !DecidedCommits(project_dir).empty();
}

// ---- commit

struct ProfileStore::Run {
  const std::string project_dir;
  const std::string job_id;
  Locks locks;
  CommitPlan plan;
  std::vector<std::string> changes;  // places with other content than before
  bool resumed = false;              // the decision is an earlier attempt's
};

absl::Status ProfileStore::Commit(const std::string& project_dir, const std::string& job_id,
                                  const ResultNames& names, std::vector<std::string>* changes) {
  Run run{project_dir, job_id, {}, {}, {}, false};
  absl::Status status = Prepare(run, names);
  const size_t before = run.changes.size();
  if (status.ok()) status = Finish(run);
  if (changes != nullptr) *changes = run.changes;
  if (status.ok()) return status;
  const std::string manifest = ManifestPath(project_dir, job_id);
  if (!run.resumed && run.changes.size() == before && unlink(manifest.c_str()) == 0) {
    // Nothing was swapped yet, so the decision is taken back.
    (void)FsyncPath(StagingDir(project_dir, job_id));
  }
  std::string message(status.message());
  if (Exists(manifest)) {
    absl::StrAppend(&message, "; the result is kept in ", StagingDir(project_dir, job_id),
                    " and will be put in place by the next job there or at the next start");
  }
  return MakeError(reason::kStoreFailed, message,
                   {"free space or make the folder writable, then run the command again"});
}

// Everything that can fail for want of space comes before the decision.
absl::Status ProfileStore::Prepare(Run& run, const ResultNames& names) {
  LY_ASSIGN_OR_RETURN(run.locks, LockProject(run.project_dir));
  LY_RETURN_IF_ERROR(RollForwardOthers(run));
  // What is half removed is out of the way of new results, so it may wait.
  const absl::Status removed = CompleteRemovals(run.project_dir, run.changes);
  if (!removed.ok()) LogError("removal not completed", {{"error", removed.message()}});
  const std::string staging = StagingDir(run.project_dir, run.job_id);
  const std::string manifest = ManifestPath(run.project_dir, run.job_id);
  if (Exists(manifest)) {
    run.resumed = true;
    LY_ASSIGN_OR_RETURN(run.plan, ReadCommitPlan(manifest));
    return absl::OkStatus();
  }
  for (const std::string& entry : names.Entries()) {
    if (JobOf(absl::StrCat(staging, "/", entry)) != run.job_id) {
      return absl::InternalError(
          absl::StrCat("the result is incomplete: ", staging, "/", entry, " has no profile of it"));
    }
  }
  LY_RETURN_IF_ERROR(FsyncTree(staging, "staging"));
  run.plan = MakeCommitPlan(run.project_dir, names);
  for (const auto& [entry, folder] : run.plan.history) {
    const std::string path = absl::StrCat(run.project_dir, "/history/", folder);
    LY_RETURN_IF_ERROR(MakeDirectories(path));
    LY_RETURN_IF_ERROR(Fsync(path, "history folder"));
  }
  if (!run.plan.history.empty()) LY_RETURN_IF_ERROR(Fsync(run.project_dir + "/history", "history"));
  LY_RETURN_IF_ERROR(Fsync(run.project_dir + "/.staging", ".staging"));
  FsyncParents(run.project_dir);
  LY_RETURN_IF_ERROR(At("decide"));
  const std::string undecided = manifest + ".new";
  LY_RETURN_IF_ERROR(WriteFile(undecided, CommitPlanText(run.plan)));
  LY_RETURN_IF_ERROR(Fsync(undecided, "plan"));
  // From here on the new result is decided: whatever happens, it will be completed.
  int error = 0;
  LY_RETURN_IF_ERROR(Rename(undecided, manifest, 0, "place plan", &error));
  return Fsync(staging, "decision");
}

// A commit that failed half-way in this process, or at the last start, comes first: the newest
// result must not be replaced by an older one later.
absl::Status ProfileStore::RollForwardOthers(Run& run) {
  for (const std::string& job_id : DecidedCommits(run.project_dir)) {
    if (job_id == run.job_id) continue;
    LY_ASSIGN_OR_RETURN(CommitPlan plan, ReadCommitPlan(ManifestPath(run.project_dir, job_id)));
    Run other{run.project_dir, job_id, {}, std::move(plan), {}, true};
    LY_RETURN_IF_ERROR(Finish(other));
    LogInfo("commit rolled forward", {{"job", job_id}, {"project", run.project_dir}});
    run.changes.insert(run.changes.end(), other.changes.begin(), other.changes.end());
  }
  return absl::OkStatus();
}

absl::Status ProfileStore::Finish(Run& run) {
  for (const std::string& entry : SurplusEntries(run.project_dir, run.plan.names)) {
    LY_RETURN_IF_ERROR(MoveToHistory(run, absl::StrCat(run.project_dir, "/", entry), entry));
    run.changes.push_back(entry);
  }
  for (const std::string& entry : run.plan.names.Entries()) LY_RETURN_IF_ERROR(SwapIn(run, entry));
  LY_RETURN_IF_ERROR(Fsync(run.project_dir, "project"));
  LY_RETURN_IF_ERROR(At("sweep"));
  RemoveStaging(run.project_dir, run.job_id);
  return absl::OkStatus();
}

// Idempotent, by asking each place whose result stands there: a crash may have come between any two
// steps.
absl::Status ProfileStore::SwapIn(Run& run, const std::string& entry) {
  const std::string staging = StagingDir(run.project_dir, run.job_id);
  const std::string target = absl::StrCat(run.project_dir, "/", entry);
  const std::string staged = absl::StrCat(staging, "/", entry);
  const std::string aside = staged + ".replaced";
  if (JobOf(staged) == run.job_id) {
    int error = 0;
    if (Exists(target)) {
      const absl::Status swapped =
          Rename(staged, target, RENAME_EXCHANGE, absl::StrCat("exchange ", entry), &error);
      if (FlagsUnsupported(error)) {
        // Two renames; between them the old result stands aside, from where a later attempt takes
        // it on.
        LY_RETURN_IF_ERROR(Rename(target, aside, 0, absl::StrCat("aside ", entry), &error));
        run.changes.push_back(entry);
        LY_RETURN_IF_ERROR(Rename(staged, target, 0, absl::StrCat("place ", entry), &error));
      } else {
        LY_RETURN_IF_ERROR(swapped);
      }
    } else {
      LY_RETURN_IF_ERROR(RenameNoReplace(staged, target, absl::StrCat("place ", entry)));
    }
    run.changes.push_back(entry);
    LY_RETURN_IF_ERROR(Fsync(run.project_dir, "project"));
  }
  for (const std::string& old : {staged, aside}) {
    if (Exists(old)) LY_RETURN_IF_ERROR(MoveToHistory(run, old, entry));
  }
  return absl::OkStatus();
}

absl::Status ProfileStore::MoveToHistory(Run& run, const std::string& from,
                                         const std::string& entry) {
  // An entry that the plan does not know was put there after the decision.
  const auto planned = run.plan.history.find(entry);
  const std::string owner = planned != run.plan.history.end() ? planned->second : NameByTime(from);
  for (int attempt = 0;; ++attempt) {
    const std::string place =
        absl::StrCat("history/", owner, attempt == 0 ? "" : absl::StrCat("-", attempt));
    const std::string folder = absl::StrCat(run.project_dir, "/", place);
    LY_RETURN_IF_ERROR(MakeDirectories(folder));
    const std::string to = absl::StrCat(folder, "/", entry);
    if (Exists(to)) continue;
    LY_RETURN_IF_ERROR(RenameNoReplace(from, to, absl::StrCat("history ", entry)));
    run.changes.push_back(absl::StrCat(place, "/", entry));
    LY_RETURN_IF_ERROR(Fsync(folder, "history folder"));
    return Fsync(run.project_dir + "/history", "history");
  }
}

// ---- start-up

absl::StatusOr<std::vector<RecoveredCommit>> ProfileStore::Recover(
    const std::string& project_dir, const std::function<bool(const std::string&)>& ours) {
  std::vector<RecoveredCommit> recovered;
  const std::vector<std::string> jobs = NamesIn(absl::StrCat(project_dir, "/.staging"));
  if (jobs.empty()) {
    std::error_code ignored;  // left by a job whose project was read-only when it ended
    fs::remove(absl::StrCat(project_dir, "/.staging"), ignored);
    return recovered;
  }
  const auto locks = LockProject(project_dir);
  if (!locks.ok()) return MakeError(reason::kStoreFailed, locks.status().message());
  const auto failed = [&](const std::string& job_id, const absl::Status& status) {
    LogError("commit not completed",
             {{"job", job_id}, {"project", project_dir}, {"error", status.message()}});
  };
  std::vector<std::string> ignored;  // a start looks at everything
  const absl::Status removed = CompleteRemovals(project_dir, ignored);
  if (!removed.ok()) failed("", removed);
  for (const std::string& job_id : DecidedCommits(project_dir)) {
    auto plan = ReadCommitPlan(ManifestPath(project_dir, job_id));
    if (!plan.ok()) {
      failed(job_id, plan.status());
      continue;
    }
    Run run{project_dir, job_id, {}, *plan, {}, true};
    const absl::Status status = Finish(run);
    if (!status.ok()) {
      failed(job_id, status);
      break;  // a newer one must not be put in place before it
    }
    LogInfo("commit rolled forward", {{"job", job_id}, {"project", project_dir}});
    recovered.push_back({job_id, plan->names});
  }
  for (const std::string& job_id : jobs) {
    if (IsRemoval(job_id) || Exists(ManifestPath(project_dir, job_id)) || (ours && !ours(job_id)) ||
        !Exists(StagingDir(project_dir, job_id)))
      continue;
    LogInfo("staging swept", {{"job", job_id}, {"project", project_dir}});
    RemoveStaging(project_dir, job_id);
  }
  return recovered;
}

bool ProfileStore::IsCommitted(const std::string& project_dir, const std::string& job_id,
                               const ResultNames& names) {
  // The last entry to be swapped in.
  const std::string last = names.Entries().back();
  return JobOf(absl::StrCat(project_dir, "/", last)) == job_id ||
         JobOf(absl::StrCat(project_dir, "/history/", job_id, "/", last)) == job_id;
}

void ProfileStore::Discard(const std::string& project_dir, const std::string& job_id) {
  if (!Exists(ManifestPath(project_dir, job_id))) RemoveStaging(project_dir, job_id);
}

}  // namespace libreyolo::daemon
