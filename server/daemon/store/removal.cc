#include "server/daemon/store/removal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "absl/strings/strip.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "server/daemon/store/profile_listing.h"
#include "server/daemon/store/profile_store.h"
#include "server/daemon/store/result_files.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

void AddPlaces(const std::string& project_dir, const std::string& prefix, const std::string& job_id,
               std::vector<std::string>& places) {
  const std::string folder = absl::StrCat(project_dir, "/", prefix);
  for (const std::string& name : NamesIn(folder)) {
    if (IsEntry(name) && JobOf(absl::StrCat(folder, "/", name)) == job_id)
      places.push_back(prefix + name);
  }
}

// The folders of the history that a commit may have moved the job's result to.
std::vector<std::string> HistoryOf(const std::string& project_dir, const std::string& job_id) {
  std::vector<std::string> folders;
  for (const std::string& name : NamesIn(absl::StrCat(project_dir, "/history"))) {
    if (name == job_id || absl::StartsWith(name, absl::StrCat(job_id, "-")))
      folders.push_back(name);
  }
  return folders;
}

}  // namespace

std::vector<std::string> PlacesOf(const std::string& project_dir, const std::string& job_id) {
  std::vector<std::string> places;
  AddPlaces(project_dir, "", job_id, places);
  for (const std::string& name : HistoryOf(project_dir, job_id))
    AddPlaces(project_dir, absl::StrCat("history/", name, "/"), job_id, places);
  // As they were put there: while the repeat file stands, its trials do.
  std::sort(places.begin(), places.end(), [](const std::string& a, const std::string& b) {
    const bool file_a = absl::EndsWith(a, ".json");
    const bool file_b = absl::EndsWith(b, ".json");
    return file_a != file_b ? file_a : a < b;
  });
  return places;
}

absl::StatusOr<bool> ProfileStore::Remove(const std::string& project_dir, const std::string& job_id,
                                          RunIfFree run_if_free,
                                          std::vector<std::string>* changes) {
  std::vector<std::string> changed;
  const auto remove = [&]() -> absl::StatusOr<bool> {
    LY_ASSIGN_OR_RETURN(const Locks locks, LockProject(project_dir));
    const std::string target = RemovalDir(project_dir, job_id);
    const bool begun = Exists(target);
    LY_RETURN_IF_ERROR(CompleteRemovals(project_dir, changed));
    if (HasDecidedCommit(project_dir)) return false;
    const std::vector<std::string> places = PlacesOf(project_dir, job_id);
    if (places.empty()) return begun;
    std::vector<std::string> paths;
    for (const std::string& place : places) paths.push_back(absl::StrCat(project_dir, "/", place));
    absl::Status moved = BeginRemoval(project_dir, target);
    std::vector<std::string> out;
    const bool free =
        !moved.ok() || run_if_free(paths, [&] { moved = MoveOut(project_dir, job_id, out); });
    changed.insert(changed.end(), out.begin(), out.end());
    if (out.empty()) {  // nothing has happened, and the decision is taken back
      (void)rmdir(target.c_str());
      (void)rmdir((project_dir + "/.staging").c_str());
    }
    LY_RETURN_IF_ERROR(moved);
    if (!free) return false;
    LY_RETURN_IF_ERROR(DeleteMovedOut(project_dir, job_id));
    return true;
  };
  const absl::StatusOr<bool> removed = remove();
  if (changes != nullptr) *changes = changed;
  return removed.ok() ? removed : MakeError(reason::kStoreFailed, removed.status().message());
}

// The folder of the removal is on disk before anything is moved into it.
absl::Status ProfileStore::BeginRemoval(const std::string& project_dir, const std::string& target) {
  LY_RETURN_IF_ERROR(MakeDirectories(project_dir + "/.staging"));
  LY_RETURN_IF_ERROR(Fsync(project_dir, "project"));
  LY_RETURN_IF_ERROR(At("begin removal"));
  if (mkdir(target.c_str(), 0777) != 0) return ErrnoStatus(errno, "make", target);
  return Fsync(project_dir + "/.staging", ".staging");
}

// Idempotent: what is already out is found no more.
absl::Status ProfileStore::MoveOut(const std::string& project_dir, const std::string& job_id,
                                   std::vector<std::string>& changes) {
  const std::string target = RemovalDir(project_dir, job_id);
  for (const std::string& place : PlacesOf(project_dir, job_id)) {
    // Under a name that nothing has: a job may have left parts in two places.
    std::string to;
    for (int i = 0; to.empty() || Exists(to); ++i) to = absl::StrCat(target, "/", i);
    LY_RETURN_IF_ERROR(
        RenameNoReplace(absl::StrCat(project_dir, "/", place), to, absl::StrCat("remove ", place)));
    changes.push_back(place);
  }
  return absl::OkStatus();
}

absl::Status ProfileStore::DeleteMovedOut(const std::string& project_dir,
                                          const std::string& job_id) {
  // All that may have held a part, also when an earlier attempt moved it: nothing is deleted that
  // could come back without content.
  std::set<std::string> folders = {project_dir};
  if (Exists(project_dir + "/history")) folders.insert(project_dir + "/history");
  for (const std::string& name : HistoryOf(project_dir, job_id))
    folders.insert(absl::StrCat(project_dir, "/history/", name));
  for (const std::string& folder : folders) {
    LY_RETURN_IF_ERROR(Fsync(folder, folder == project_dir ? "project" : "history folder"));
  }
  // The deepest first, and only what nothing else is in.
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    if (*folder != project_dir) (void)rmdir(folder->c_str());
  }
  LY_RETURN_IF_ERROR(At("delete removed"));
  std::error_code error;
  fs::remove_all(RemovalDir(project_dir, job_id), error);
  if (error) return ErrnoStatus(error.value(), "delete", RemovalDir(project_dir, job_id));
  fs::remove(project_dir + "/.staging", error);  // unless a job is at work in it
  return absl::OkStatus();
}

absl::Status ProfileStore::CompleteRemovals(const std::string& project_dir,
                                            std::vector<std::string>& changes) {
  for (const std::string& name : NamesIn(project_dir + "/.staging")) {
    if (!IsRemoval(name)) continue;
    const std::string job_id(absl::StripSuffix(name, kRemovalSuffix));
    LY_RETURN_IF_ERROR(MoveOut(project_dir, job_id, changes));
    LY_RETURN_IF_ERROR(DeleteMovedOut(project_dir, job_id));
    LogInfo("removal completed", {{"job", job_id}, {"project", project_dir}});
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::daemon
