#include "server/daemon/store/profile_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/json/json_value.h"
#include "server/daemon/store/layout.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;
namespace v1 = ::libreyolo::profile::v1;

constexpr char kManifest[] = "COMMIT";

absl::Status StoreError(const absl::Status& cause) {
  if (cause.ok()) return cause;
  return MakeError(reason::kStoreFailed, cause.message(),
                   {"free space or make the folder writable, then run the command again"});
}

bool Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

// The job that made the profile in `path` (a folder or a *_repeat.json); empty when it does not
// say.
std::string JobOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  const auto text = ReadFile(S_ISDIR(info.st_mode) ? path + "/profile.json" : path);
  if (!text.ok()) return {};
  const auto json = ParseJson(*text);
  if (!json.ok()) return {};
  const JsonValue* job = json->Find(kJobKey);
  return job != nullptr && job->is_string() ? job->string_value() : std::string();
}

// A name for a result of unknown origin: the time of its file.
std::string NameByTime(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return "unknown";
  return absl::FormatTime("%Y%m%dT%H%M%SZ", absl::FromTimeT(info.st_mtime), absl::UTCTimeZone());
}

absl::Status RenameWithFlags(const std::string& from, const std::string& to, unsigned flags) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "rename", absl::StrCat(from, " to ", to));
}

// Some network and sandboxed file systems know no flags.
bool FlagsUnsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

absl::Status FsyncTree(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::directory_iterator(path, error))
      LY_RETURN_IF_ERROR(FsyncTree(entry.path()));
  }
  return FsyncPath(path);
}

// One committer per project. The lock file stands in the state folder, so that a project holds
// results only.
absl::StatusOr<UniqueFd> LockProject(const std::string& lock_dir, const std::string& project_dir) {
  LY_RETURN_IF_ERROR(MakeDirectories(lock_dir));
  const std::string path =
      absl::StrCat(lock_dir, "/", Sha256Hex(project_dir).substr(0, 16), ".lock");
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return ErrnoStatus(errno, "open", path);
  while (flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "lock", path);
  }
  return fd;
}

std::string ManifestText(const ResultNames& names) {
  JsonValue json;
  json.Set("base", names.base);
  json.Set("trial_count", names.trial_count);
  return json.ToCompact();
}

absl::StatusOr<ResultNames> ReadManifest(const std::string& path) {
  LY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  LY_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(text));
  const JsonValue* base = json.Find("base");
  const JsonValue* count = json.Find("trial_count");
  if (base == nullptr || !base->is_string() || count == nullptr || !count->is_int()) {
    return absl::InternalError(absl::StrCat(path, " is damaged"));
  }
  return ResultNames{base->string_value(), static_cast<int>(count->int_value())};
}

// Entries of earlier results that the new one replaces although it has none of that name: a longer
// repeat's last trials, or the repeat file where now a single trial stands.
std::vector<std::string> Surplus(const std::string& project_dir, const ResultNames& names) {
  std::vector<std::string> surplus;
  const std::vector<std::string> entries = names.Entries();
  const std::string prefix = names.base + "_";
  const std::string repeat = ResultNames{names.base, 2}.RepeatFile();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(project_dir, error)) {
    const std::string name = entry.path().filename();
    int number = 0;
    const bool trial =
        absl::StartsWith(name, prefix) && absl::SimpleAtoi(name.substr(prefix.size()), &number);
    // A single run beside the trials of a repeat replaces only what has its own name, and the other
    // way round: both stay readable under their own paths.
    const bool of_repeat = names.trial_count > 1 && (trial || name == repeat);
    if (of_repeat && std::find(entries.begin(), entries.end(), name) == entries.end())
      surplus.push_back(name);
  }
  return surplus;
}

std::string TextOf(const JsonValue& json, const char* key) {
  const JsonValue* value = json.Find(key);
  return value != nullptr && value->is_string() ? value->string_value() : std::string();
}

}  // namespace

std::string ResultNames::Trial(int trial) const {
  return trial_count == 1 ? base : absl::StrCat(base, "_", trial);
}

std::string ResultNames::RepeatFile() const {
  if (trial_count == 1) return {};
  return base == "prof" ? "profile_repeat.json" : base + "_repeat.json";
}

std::string ResultNames::Profile() const {
  return trial_count == 1 ? base + "/profile.json" : RepeatFile();
}

std::vector<std::string> ResultNames::Entries() const {
  std::vector<std::string> entries;
  for (int i = 0; i < trial_count; ++i) entries.push_back(Trial(i));
  if (trial_count > 1) entries.push_back(RepeatFile());
  return entries;
}

absl::Status ProfileStore::At(const std::string& point) const {
  return hook_ ? hook_(point) : absl::OkStatus();
}

absl::Status ProfileStore::Commit(const std::string& project_dir, const std::string& job_id,
                                  const ResultNames& names) {
  const absl::Status status = [&]() -> absl::Status {
    LY_ASSIGN_OR_RETURN(const UniqueFd lock, LockProject(lock_dir_, project_dir));
    const std::string staging = StagingDir(project_dir, job_id);
    LY_RETURN_IF_ERROR(At("before-fsync"));
    LY_RETURN_IF_ERROR(FsyncTree(staging));
    LY_RETURN_IF_ERROR(At("before-manifest"));
    // From here on the new result is decided: whatever happens, it will be completed.
    LY_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(staging, "/", kManifest), ManifestText(names)));
    LY_RETURN_IF_ERROR(FsyncPath(staging));
    return FinishCommit(project_dir, job_id, names);
  }();
  return StoreError(status);
}

absl::Status ProfileStore::FinishCommit(const std::string& project_dir, const std::string& job_id,
                                        const ResultNames& names) {
  for (const std::string& entry : Surplus(project_dir, names)) {
    LY_RETURN_IF_ERROR(MoveToHistory(project_dir, absl::StrCat(project_dir, "/", entry), entry));
  }
  for (const std::string& entry : names.Entries())
    LY_RETURN_IF_ERROR(SwapIn(project_dir, job_id, entry));
  LY_RETURN_IF_ERROR(FsyncPath(project_dir));
  LY_RETURN_IF_ERROR(At("before-sweep"));
  Discard(project_dir, job_id);
  return absl::OkStatus();
}

// Idempotent, by asking each place whose result stands there: a crash may have come between any two
// steps.
absl::Status ProfileStore::SwapIn(const std::string& project_dir, const std::string& job_id,
                                  const std::string& entry) {
  const std::string target = absl::StrCat(project_dir, "/", entry);
  const std::string staged = absl::StrCat(StagingDir(project_dir, job_id), "/", entry);
  const std::string aside = staged + ".replaced";
  if (Exists(staged) && JobOf(staged) == job_id) {
    LY_RETURN_IF_ERROR(At(absl::StrCat("before-exchange ", entry)));
    const bool present = Exists(target);
    const absl::Status swapped =
        RenameWithFlags(staged, target, present ? RENAME_EXCHANGE : RENAME_NOREPLACE);
    if (!swapped.ok()) {
      if (!FlagsUnsupported(errno)) return swapped;
      // Two renames; between them the old result stands aside, from where Recover() takes it on.
      if (present) LY_RETURN_IF_ERROR(RenameWithFlags(target, aside, 0));
      LY_RETURN_IF_ERROR(At(absl::StrCat("between-renames ", entry)));
      LY_RETURN_IF_ERROR(RenameWithFlags(staged, target, 0));
    }
    LY_RETURN_IF_ERROR(FsyncPath(project_dir));
  }
  LY_RETURN_IF_ERROR(At(absl::StrCat("before-history ", entry)));
  for (const std::string& old : {staged, aside}) {
    if (Exists(old)) LY_RETURN_IF_ERROR(MoveToHistory(project_dir, old, entry));
  }
  return absl::OkStatus();
}

absl::Status ProfileStore::MoveToHistory(const std::string& project_dir, const std::string& from,
                                         const std::string& entry) {
  std::string owner = JobOf(from);
  if (owner.empty() || absl::StrContains(owner, '/') || owner[0] == '.') owner = NameByTime(from);
  for (int attempt = 0;; ++attempt) {
    const std::string folder = absl::StrCat(project_dir, "/history/", owner,
                                            attempt == 0 ? "" : absl::StrCat("-", attempt));
    LY_RETURN_IF_ERROR(MakeDirectories(folder));
    const std::string to = absl::StrCat(folder, "/", entry);
    // NOREPLACE by hand where flags are unknown: the project's lock is held.
    if (Exists(to)) continue;
    LY_RETURN_IF_ERROR(RenameWithFlags(from, to, 0));
    LY_RETURN_IF_ERROR(FsyncPath(folder));
    return FsyncPath(absl::StrCat(project_dir, "/history"));
  }
}

absl::StatusOr<std::vector<RecoveredCommit>> ProfileStore::Recover(const std::string& project_dir) {
  std::vector<RecoveredCommit> recovered;
  const std::string staging_root = absl::StrCat(project_dir, "/.staging");
  std::error_code error;
  std::vector<std::string> jobs;
  for (const auto& entry : fs::directory_iterator(staging_root, error))
    jobs.push_back(entry.path().filename());
  if (jobs.empty()) return recovered;
  LY_ASSIGN_OR_RETURN(const UniqueFd lock, LockProject(lock_dir_, project_dir));
  for (const std::string& job_id : jobs) {
    const std::string manifest = absl::StrCat(staging_root, "/", job_id, "/", kManifest);
    if (!Exists(manifest)) {
      LogInfo("staging swept", {{"job", job_id}, {"project", project_dir}});
      Discard(project_dir, job_id);
      continue;
    }
    LY_ASSIGN_OR_RETURN(const ResultNames names, ReadManifest(manifest));
    LY_RETURN_IF_ERROR(StoreError(FinishCommit(project_dir, job_id, names)));
    LogInfo("commit rolled forward", {{"job", job_id}, {"project", project_dir}});
    recovered.push_back({job_id, names});
  }
  return recovered;
}

void ProfileStore::Discard(const std::string& project_dir, const std::string& job_id) {
  std::error_code ignored;  // what is left is swept at the next start
  fs::remove_all(StagingDir(project_dir, job_id), ignored);
  fs::remove(absl::StrCat(project_dir, "/.staging"), ignored);
}

absl::StatusOr<v1::ProfileInfo> DescribeProfile(const std::string& absolute,
                                                const std::string& shown) {
  LY_ASSIGN_OR_RETURN(const std::string text, ReadFile(absolute, int64_t{64} << 20));
  LY_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(text));
  if (!json.is_object()) return absl::InvalidArgumentError("not a profile");
  v1::ProfileInfo info;
  info.set_path(shown);
  info.set_job(TextOf(json, kJobKey));
  info.set_mode(TextOf(json, "mode").empty() ? "train" : TextOf(json, "mode"));
  info.set_model(TextOf(json, "model"));
  info.set_bound(TextOf(json, "bound"));
  if (const JsonValue* config = json.Find("config")) info.set_device(TextOf(*config, "device"));
  info.set_validity(TextOf(json, "validity"));
  for (const auto& [key, set] : {std::pair<const char*, void (v1::ProfileInfo::*)(double)>{
                                     "img_per_s", &v1::ProfileInfo::set_img_per_s},
                                 {"step_ms", &v1::ProfileInfo::set_step_ms}}) {
    const JsonValue* value = json.Find(key);
    if (value != nullptr && value->is_number()) (info.*set)(value->number());
  }
  struct stat status;
  if (stat(absolute.c_str(), &status) == 0) {
    info.mutable_time()->set_seconds(status.st_mtim.tv_sec);
    info.mutable_time()->set_nanos(static_cast<int32_t>(status.st_mtim.tv_nsec));
  }
  const fs::path path(absolute);
  std::error_code error;
  std::vector<fs::path> files = {path};
  if (path.filename() == "profile.json") {
    for (const auto& entry : fs::directory_iterator(path.parent_path(), error)) {
      if (entry.is_regular_file(error) && entry.path() != path) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  int64_t total = 0;
  for (const fs::path& file : files) {
    v1::ProfileFile& out = *info.add_files();
    out.set_name(file.filename());
    out.set_size_bytes(static_cast<int64_t>(fs::file_size(file, error)));
    total += out.size_bytes();
  }
  info.set_size_bytes(total);
  return info;
}

std::vector<v1::ProfileInfo> ProfileStore::Scan(const std::string& project_dir,
                                                const std::string& prefix) const {
  std::vector<v1::ProfileInfo> profiles;
  const auto scan = [&](const std::string& folder, const std::string& shown, bool replaced) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename();
      std::string file;
      if (entry.is_directory(error) &&
          (absl::StartsWith(name, "infer") || absl::StartsWith(name, "prof"))) {
        file = "/profile.json";
      } else if (name != "infer_repeat.json" && name != "profile_repeat.json") {
        continue;
      }
      auto info =
          DescribeProfile(entry.path().string() + file, absl::StrCat(shown, "/", name, file));
      if (!info.ok()) continue;  // somebody else's file under a name of ours
      info->set_replaced(replaced);
      profiles.push_back(*std::move(info));
    }
  };
  scan(project_dir, prefix, false);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(absl::StrCat(project_dir, "/history"), error)) {
    const std::string name = entry.path().filename();
    scan(entry.path(), absl::StrCat(prefix, "/history/", name), true);
  }
  return profiles;
}

}  // namespace libreyolo::daemon
