#include "server/daemon/jobs/store_steps.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/profile_summary.h"
#include "common/analysis/repeat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/job/measurement_json.h"
#include "common/trace/trace_reader.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/store/result_files.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kTraceFile[] = "profile_trace.json";
absl::Status AsStoreError(const absl::Status& status) {
  return status.ok() ? status : MakeError(reason::kStoreFailed, status.message());
}

absl::StatusOr<job::Measurement> ReadMeasurement(const std::string& text) {
  const auto json = ParseJson(text);
  auto measurement = json.ok() ? job::MeasurementFromJson(*json) : json.status();
  if (measurement.ok()) return measurement;
  return MakeError(reason::kWorkerFailed,
                   absl::StrCat("the worker's measurement: ", measurement.status().message()),
                   {"libreyolo jobs logs ID shows what the worker said"});
}

}  // namespace

ResultNames NamesOf(const job::JobSpec& spec) {
  return {spec.mode == job::Mode::kTrain ? "prof" : "infer", spec.repeat};
}

CommittedResult DescribeResult(const std::string& project, const ResultNames& names, bool trace) {
  CommittedResult result;
  result.profile = absl::StrCat(project, "/", names.Profile());
  if (trace)
    result.trace = absl::StrCat(project, "/", names.Trial(names.trial_count - 1), "/", kTraceFile);
  return result;
}

absl::StatusOr<worker_link::WorkerPlan> StoreSteps::Prepare(const JobPlace& place,
                                                            const job::JobSpec& spec,
                                                            const std::string& device,
                                                            const std::atomic<bool>& cancelled,
                                                            const ProgressFn& progress) {
  const LogScope scope("job", place.job_id);
  // The project is known before its first file exists, so that a crash leaves nothing that start-up
  // cannot find.
  LY_RETURN_IF_ERROR(index_.AddProject({place.workspace, place.project}));
  progress("looking up weights", 0, 0);
  LY_ASSIGN_OR_RETURN(const JobInputs::Weights weights,
                      inputs_.FetchWeights(spec, cancelled, [&](int64_t done, int64_t total) {
                        progress("downloading weights", done, total);
                      }));
  worker_link::WorkerPlan plan;
  plan.job_id = place.job_id;
  plan.mode = spec.mode;
  plan.device = WorkerDeviceOf(device).name;
  plan.threads = spec.threads;
  plan.weights = spec.weights.text;
  plan.weights_path = weights.path;
  plan.weights_digest = weights.digest;
  plan.size = spec.size;
  plan.source = spec.source.text;
  const InputSettings& settings = inputs_.settings();
  if (!settings.datasets_folders.empty()) plan.datasets_dir = settings.datasets_folders.front();
  // What one user's workers write there is read by no other's.
  plan.cache_dir = absl::StrCat(settings.cache_dir, "/workers/",
                                place.workspace.empty() ? "default" : place.workspace);
  LY_ASSIGN_OR_RETURN(plan.source_paths,
                      inputs_.FetchSource(spec, layout_.InputDir(place.job_id), cancelled,
                                          [&](int64_t done, int64_t total) {
                                            progress("fetching the dataset", done, total);
                                          }));
  LY_ASSIGN_OR_RETURN(plan.data_roots,
                      inputs_.DataRoots(spec, layout_.InputDir(place.job_id), plan.source_paths));
  plan.batch = spec.batch;
  plan.imgsz = spec.imgsz;
  plan.warmup = spec.warmup;
  plan.runs = spec.runs;
  plan.half = spec.half;
  plan.amp_dtype = spec.amp_dtype;
  plan.conf = spec.conf;
  plan.iou = spec.iou;
  plan.max_det = spec.max_det;
  plan.trace = spec.trace;
  plan.workers = spec.workers;
  plan.amp = spec.amp;
  plan.on_contention = spec.on_contention;
  return plan;
}

absl::StatusOr<std::string> StoreSteps::MakeTrialFolder(const JobPlace& place,
                                                        const job::JobSpec& spec, int trial) {
  LY_ASSIGN_OR_RETURN(const std::string project,
                      layout_.ProjectDir(place.workspace, place.project));
  const std::string folder =
      absl::StrCat(StagingDir(project, place.job_id), "/", NamesOf(spec).Trial(trial));
  const absl::Status made = MakeDirectories(folder);
  if (!made.ok())
    return MakeError(reason::kProjectNotWritable, made.message(), {"choose another --project"});
  return folder;
}

namespace {

// A worker's own trace has some millions of events at most, with few names. One that was made to
// cost the daemon dear is not read to its end.
trace::ReadLimits LimitsOfWorkers() {
  trace::ReadLimits limits;
  limits.max_bytes = int64_t{4} << 30;
  limits.max_events = int64_t{8} << 20;
  limits.max_memory_bytes = int64_t{1} << 30;
  return limits;
}

// What a worker may leave is one file with its data, nothing else: no link or pipe that is followed
// later, no permissions that somebody else could use.
absl::Status KeepTraceAlone(const std::string& folder, bool trace) {
  int64_t removed = 0;
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = absl::StrCat(folder, "/", name);
    struct stat info;
    if (trace && name == kTraceFile && lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_nlink == 1) {
      if (chmod(path.c_str(), info.st_mode & 0666) == 0) continue;
    }
    ++removed;
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
      return MakeError(
          reason::kWorkerFailed,
          absl::StrCat("the worker left ", path, ", which cannot be removed: ", error.message()));
  }
  if (removed > 0)
    LogWarning("removed what a worker left", {{"folder", folder}, {"files", removed}});
  return absl::OkStatus();
}

}  // namespace

absl::Status StoreSteps::Analyze(const JobPlace& place, const job::JobSpec& spec, int trial,
                                 const std::string& measurement_json) {
  LY_ASSIGN_OR_RETURN(const std::string folder, MakeTrialFolder(place, spec, trial));
  LY_RETURN_IF_ERROR(KeepTraceAlone(folder, spec.trace));
  LY_ASSIGN_OR_RETURN(const job::Measurement measurement, ReadMeasurement(measurement_json));
  analysis::Profile profile;
  if (spec.trace) {
    const std::string path = absl::StrCat(folder, "/", kTraceFile);
    struct stat info;
    if (stat(path.c_str(), &info) != 0 || info.st_size == 0) {
      return MakeError(reason::kWorkerFailed, stat(path.c_str(), &info) != 0
                                                  ? "the worker left no trace"
                                                  : "the trace is empty");
    }
    auto trace = trace::ReadTrace(path, LimitsOfWorkers());
    // Our own worker's trace must read: what is wrong with it is no fault of a user's file.
    if (!trace.ok()) {
      return MakeError(
          reason::kWorkerFailed, absl::StrCat("the worker's trace: ", trace.status().message()),
          {absl::StrCat("libreyolo jobs logs ", place.job_id), "--no-trace measures without one"});
    }
    analysis::BuildOptions options;
    options.trace_path =
        absl::StrCat(place.project, "/", NamesOf(spec).Trial(trial), "/", kTraceFile);
    LY_ASSIGN_OR_RETURN(profile, analysis::BuildProfile(*trace, &measurement, options));
  } else {
    profile = analysis::BuildProfile(measurement);
  }
  profile.job = place.job_id;
  LY_RETURN_IF_ERROR(
      AsStoreError(WriteFile(folder + "/profile.json", analysis::WriteProfileJson(profile))));
  return AsStoreError(WriteFile(folder + "/profile_summary.json",
                                analysis::WriteProfileSummary(profile, measurement)));
}

absl::StatusOr<CommittedResult> StoreSteps::Commit(const JobPlace& place,
                                                   const job::JobSpec& spec) {
  LY_ASSIGN_OR_RETURN(const std::string project,
                      layout_.ProjectDir(place.workspace, place.project));
  const ResultNames names = NamesOf(spec);
  if (spec.repeat > 1) {
    std::vector<analysis::Profile> trials;
    std::vector<std::string> paths;
    for (int i = 0; i < spec.repeat; ++i) {
      const std::string path =
          absl::StrCat(StagingDir(project, place.job_id), "/", names.Trial(i), "/profile.json");
      LY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
      LY_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(text));
      LY_ASSIGN_OR_RETURN(analysis::Profile profile, analysis::ProfileFromJson(json));
      trials.push_back(std::move(profile));
      paths.push_back(absl::StrCat(place.project, "/", names.Trial(i), "/profile.json"));
    }
    analysis::Profile repeat = analysis::AggregateTrials(trials, paths);
    repeat.job = place.job_id;
    LY_RETURN_IF_ERROR(AsStoreError(profiles_.At("write repeat file")));
    LY_RETURN_IF_ERROR(AsStoreError(
        WriteFile(absl::StrCat(StagingDir(project, place.job_id), "/", names.RepeatFile()),
                  analysis::WriteProfileJson(repeat))));
    (void)profiles_.At("after write repeat file");
  }
  std::vector<std::string> changes;
  const absl::Status committed = profiles_.Commit(project, place.job_id, names, &changes);
  // Also after a failure: an earlier commit may have been completed.
  ListChanges(place, project, changes);
  LY_RETURN_IF_ERROR(committed);
  retention_.Run(place.workspace);
  CommittedResult result = DescribeResult(place.project, names, spec.trace);
  const int64_t history = HistoryBytes(place, project);
  if (history >= history_mention_bytes_) {
    result.notes.push_back(absl::StrFormat("%s/history holds %.1f GiB of replaced results",
                                           place.project,
                                           static_cast<double>(history) / (int64_t{1} << 30)));
  }
  std::error_code ignored;
  fs::remove_all(layout_.InputDir(place.job_id), ignored);
  return result;
}

// The index is only a cache, which the next start brings up to date: an error here is no failure of
// the job.
void StoreSteps::ListChanges(const JobPlace& place, const std::string& project,
                             const std::vector<std::string>& changes) {
  std::vector<std::string> paths;
  for (const std::string& change : changes) {
    paths.push_back(absl::StrCat(place.project, "/", ProfilePathOf(change)));
  }
  const std::vector<profile::v1::ProfileInfo> infos =
      DescribePlaces(project, place.project, changes);
  absl::Status listed = index_.UpdateProfiles({place.workspace, place.project}, paths, infos);
  for (const profile::v1::ProfileInfo& info : infos) {
    // Another daemon's may have been completed here too.
    if (info.replaced() || !index_.Find(info.job()).value_or(std::nullopt).has_value()) continue;
    listed.Update(index_.NoteCommit(place.workspace, info.job()));
  }
  if (!listed.ok())
    LogError("profiles not listed", {{"job", place.job_id}, {"error", listed.message()}});
}

// From the index, so that a commit costs the same however long the history is. What the index says
// is looked up before it is mentioned: people delete folders.
int64_t StoreSteps::HistoryBytes(const JobPlace& place, const std::string& project) {
  const Index::Project key{place.workspace, place.project};
  const int64_t known = index_.HistoryBytes(key).value_or(0);
  if (known < history_mention_bytes_) return known;
  const absl::Status listed = index_.SetProfiles(
      key, profiles_.Scan(
               project, place.project,
               index_.ProjectProfiles(key).value_or(std::vector<profile::v1::ProfileInfo>())));
  if (!listed.ok())
    LogError("profiles not listed", {{"job", place.job_id}, {"error", listed.message()}});
  return index_.HistoryBytes(key).value_or(0);
}

void StoreSteps::Discard(const JobPlace& place) {
  const auto project = layout_.ProjectDir(place.workspace, place.project);
  std::error_code ignored;
  if (project.ok()) {
    profiles_.Discard(*project, place.job_id);
    // Folders that were made for a result that never came; what holds anything stays.
    const auto root = layout_.WorkspaceRoot(place.workspace);
    for (fs::path dir = *project; root.ok() && dir.string().size() > root->size();
         dir = dir.parent_path()) {
      if (!fs::remove(dir, ignored)) break;
    }
  }
  fs::remove_all(layout_.InputDir(place.job_id), ignored);
}

}  // namespace libreyolo::daemon
