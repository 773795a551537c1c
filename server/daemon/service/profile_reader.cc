#include "server/daemon/service/profile_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "server/daemon/store/result_files.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// Profiles are small beside the traces they come from (rows, not events).
constexpr size_t kCacheEntries = 32;

absl::Status NotFound(const std::string& typed) {
  return MakeError(reason::kProfileNotFound, absl::StrCat("not found: ", typed),
                   {"libreyolo profile list shows what there is"}, {{"path", typed}});
}

absl::Status Gone(const std::string& job_id) {
  return MakeError(reason::kProfileNotFound,
                   absl::StrCat("the profile of job ", job_id,
                                " is gone: the server's retention or somebody removed it"),
                   {"libreyolo profile list --history shows what there is"}, {{"job", job_id}});
}

}  // namespace

std::string ProfileReader::NewestPlace(const v1::Job& job, const std::string& workspace) const {
  // The result stands in <project>/...; once replaced, in <project>/history/<job id>/...
  const size_t depth = job.spec().repeat() > 1 ? 1 : 2;
  std::vector<std::string> parts = absl::StrSplit(job.profile(), '/');
  if (parts.size() <= depth) return job.profile();
  parts.insert(parts.end() - static_cast<std::ptrdiff_t>(depth), {"history", job.id()});
  const std::string history = absl::StrJoin(parts, "/");
  return layout_.ResolveExisting(workspace, history).ok() ? history : job.profile();
}

absl::StatusOr<ProfileReader::Resolved> ProfileReader::Resolve(const std::string& name,
                                                               const std::string& asked_workspace,
                                                               const Caller& caller) {
  std::string path = name;
  std::string job_id;  // whose result it must be
  LY_ASSIGN_OR_RETURN(std::string workspace, WorkspaceFor(caller, asked_workspace));
  // Job ids hold no slash and no dot, file names that readers take do.
  if (!absl::StrContains(name, '/') && !absl::StrContains(name, '.')) {
    LY_ASSIGN_OR_RETURN(const std::optional<JobRecord> record, index_.Find(name));
    if (record.has_value() && caller.MaySee(record->job.principal())) {
      const v1::Job& job = record->job;
      workspace = job.spec().workspace();
      if (job.profile().empty()) {
        return MakeError(reason::kJobNotFinished,
                         absl::StrCat("job ", name, " has no profile: it is ",
                                      v1::JobState_Name(job.state()).substr(10)),
                         {absl::StrCat("libreyolo jobs show ", name)});
      }
      path = job.profile();
      // A later job may have replaced the result, which then stands in the history.
      path = NewestPlace(job, workspace);
      job_id = name;
    }
  }
  const auto resolved = layout_.ResolveExisting(workspace, path);
  if (!resolved.ok()) {
    if (!absl::IsNotFound(resolved.status())) return resolved.status();
    return job_id.empty() ? NotFound(name) : Gone(job_id);
  }
  Resolved out{*resolved, path, workspace, {}};
  std::error_code error;
  if (std::filesystem::is_directory(*resolved, error)) {
    for (const char* name_in_folder :
         {"profile.json", "infer_repeat.json", "profile_repeat.json"}) {
      const std::string file = absl::StrCat(*resolved, "/", name_in_folder);
      if (!std::filesystem::exists(file, error)) continue;
      // The folder was looked at; what stands in it may be a link that leads elsewhere.
      LY_RETURN_IF_ERROR(
          layout_.ResolveExisting(workspace, absl::StrCat(path, "/", name_in_folder)).status());
      out.shown = absl::StrCat(absl::StripSuffix(path, "/"), "/", name_in_folder);
      out.path = file;
      break;
    }
  }
  out.hold = holds_.OfFile(out.path);
  // It may have gone before it was held; and a later job's may stand in its place.
  if (access(out.path.c_str(), F_OK) != 0) return job_id.empty() ? NotFound(name) : Gone(job_id);
  if (!job_id.empty() && JobOf(out.path) != job_id) return Gone(job_id);
  return out;
}

absl::StatusOr<ProfileReader::Resolved> ProfileReader::FindPath(const v1::TraceRef& ref,
                                                                const Caller& caller) {
  switch (ref.ref_case()) {
    case v1::TraceRef::kName:
      return Resolve(ref.name(), ref.workspace(), caller);
    case v1::TraceRef::kBlobDigest:
      LY_RETURN_IF_ERROR(uploads_.CheckOwns(caller.principal, ref.blob_digest(), ref.typed()));
      return Resolved{blobs_.Path(ref.blob_digest()), "", "", {}};
    case v1::TraceRef::kLocalPath:
      if (!caller.local_owner) {
        return MakeError(reason::kPathRefused,
                         "files can be named by their path on a local daemon only",
                         {"name a job's id or a path in the server's workspace; libreyolo profile "
                          "list shows them"});
      }
      if (!absl::StartsWith(ref.local_path(), "/")) {
        return MakeError(reason::kPathRefused,
                         absl::StrCat("\"", ref.local_path(), "\" is not absolute"));
      }
      return Resolved{ref.local_path(), "", "", holds_.OfFile(ref.local_path())};
    case v1::TraceRef::REF_NOT_SET:
      break;
  }
  return MakeError(reason::kArgumentInvalid, "no profile or trace was named",
                   {"libreyolo profile list shows them"});
}

absl::StatusOr<std::shared_ptr<const analysis::Profile>> ProfileReader::Load(
    const v1::TraceRef& ref, const Caller& caller) {
  LY_ASSIGN_OR_RETURN(const Resolved resolved, FindPath(ref, caller));
  const std::string& path = resolved.path;
  std::optional<analysis::WindowRange> window;
  if (!ref.window().empty()) {
    LY_ASSIGN_OR_RETURN(window, analysis::ParseWindowRange(ref.window()));
  }
  struct stat info;
  const std::string typed = ref.typed().empty() ? path : ref.typed();
  if (stat(path.c_str(), &info) != 0) return NotFound(typed);
  // The same file, unchanged; its sibling summary counts too.
  struct stat sibling {};
  const std::string sibling_path =
      std::filesystem::path(path).parent_path().string() + "/profile_summary.json";
  stat(sibling_path.c_str(), &sibling);
  const std::string key = absl::StrCat(
      path, "|", info.st_dev, "|", info.st_ino, "|", info.st_size, "|", info.st_mtim.tv_sec, "|",
      info.st_mtim.tv_nsec, "|", ref.window(), "|", typed, "|", caller.principal, "|",
      sibling.st_mtim.tv_nsec, "|", sibling.st_ino, "|", ref.sibling_summary_digest());
  {
    const std::lock_guard<std::mutex> lock(mu_);
    for (auto it = cache_.begin(); it != cache_.end(); ++it) {
      if (it->key != key) continue;
      cache_.splice(cache_.begin(), cache_, it);
      return cache_.front().profile;
    }
  }
  analysis::LoadOptions options;
  options.window = window;
  options.limits = limits_;
  options.limits.is_cancelled = caller.is_cancelled;
  options.shown_name = typed;
  LY_ASSIGN_OR_RETURN(analysis::Profile loaded, LoadFresh(ref, caller, path, options));
  auto profile = std::make_shared<const analysis::Profile>(std::move(loaded));
  const std::lock_guard<std::mutex> lock(mu_);
  cache_.push_front({key, profile});
  if (cache_.size() > kCacheEntries) cache_.pop_back();
  return profile;
}

absl::StatusOr<analysis::Profile> ProfileReader::LoadFresh(const v1::TraceRef& ref,
                                                           const Caller& caller,
                                                           const std::string& path,
                                                           const analysis::LoadOptions& options) {
  LY_RETURN_IF_ERROR(
      AtFaultPoint(at_, absl::StrCat("read ", std::filesystem::path(path).filename().string())));
  absl::StatusOr<analysis::Profile> loaded;
  if (uploads_.Owns(caller.principal, ref.sibling_summary_digest())) {
    LY_ASSIGN_OR_RETURN(
        const std::string summary,
        ReadFile(blobs_.Path(ref.sibling_summary_digest()), analysis::kMaxSummaryBytes));
    loaded = analysis::LoadProfileWithSummary(path, summary, options);
  } else {
    loaded = analysis::LoadProfile(path, options);
  }
  if (!loaded.ok() && absl::IsNotFound(loaded.status())) return NotFound(options.shown_name);
  return loaded;
}

std::string ProfileReader::TraceBeside(const v1::TraceRef& ref, const Caller& caller,
                                       const std::string& profile_path,
                                       const analysis::Profile& profile) {
  namespace fs = std::filesystem;
  if (ref.ref_case() == v1::TraceRef::kBlobDigest) {
    const bool is_sent = uploads_.Owns(caller.principal, ref.sibling_trace_digest());
    return is_sent ? blobs_.Path(ref.sibling_trace_digest()) : "";
  }
  std::vector<std::string> names = {"profile_trace.json", "profile_trace.json.gz"};
  if (profile.trace.has_value()) {
    const std::string named = fs::path(*profile.trace).filename().string();
    if (!named.empty()) names.insert(names.begin(), named);
  }
  const fs::path folder = fs::path(profile_path).parent_path();
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    // A link could lead out of the workspace; only the folder was checked for that.
    struct stat info;
    if (path == profile_path || lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    return path.string();
  }
  return "";
}

absl::StatusOr<ProfileReader::WithTrace> ProfileReader::LoadWithTrace(const v1::TraceRef& ref,
                                                                      const Caller& caller) {
  LY_ASSIGN_OR_RETURN(const Resolved resolved, FindPath(ref, caller));
  const std::string& path = resolved.path;
  WithTrace out;
  analysis::LoadOptions options;
  if (!ref.window().empty()) {
    LY_ASSIGN_OR_RETURN(options.window, analysis::ParseWindowRange(ref.window()));
  }
  options.limits = limits_;
  options.limits.is_cancelled = caller.is_cancelled;
  options.shown_name = ref.typed().empty() ? path : ref.typed();
  options.keep_trace = &out.trace;
  LY_ASSIGN_OR_RETURN(out.profile, LoadFresh(ref, caller, path, options));
  if (out.trace.has_value()) return out;
  const std::string beside = TraceBeside(ref, caller, path, out.profile);
  if (beside.empty()) {
    const int64_t trials = out.profile.img_per_s_n.value_or(1);
    out.notes.push_back(
        trials > 1
            ? absl::StrCat("\"", options.shown_name, "\" sums up ", trials,
                           " trials, each with a trace of its own; name a trial to see its events")
            : absl::StrCat("\"", options.shown_name,
                           "\" is a profile without a trace beside it, so there are no events to "
                           "draw"));
    return out;
  }
  LY_ASSIGN_OR_RETURN(out.trace, trace::ReadTrace(beside, options.limits));
  return out;
}

}  // namespace libreyolo::daemon
