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

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kTraceFile[] = "profile_trace.json";
// From this size on a result mentions what its history takes.
constexpr int64_t kHistoryMentionBytes = int64_t{5} << 30;

int64_t FolderBytes(const std::string& path) {
  int64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) total += static_cast<int64_t>(entry.file_size(error));
  }
  return total;
}

absl::Status AsStoreError(const absl::Status& status) {
  return status.ok() ? status : MakeError(reason::kStoreFailed, status.message());
}

absl::StatusOr<job::Measurement> ReadMeasurement(const std::string& text) {
  const auto json = ParseJson(text);
  auto measurement = json.ok() ? job::MeasurementFromJson(*json) : json.status();
  if (measurement.ok()) return measurement;
  return MakeError(reason::kWorkerFailed,
                   absl::StrCat("the worker's measurement: ", measurement.status().message()));
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
  plan.device = device;
  plan.threads = spec.threads;
  plan.weights = spec.weights.text;
  plan.weights_path = weights.path;
  plan.weights_digest = weights.digest;
  plan.size = spec.size;
  plan.source = spec.source.text;
  LY_ASSIGN_OR_RETURN(plan.source_paths, inputs_.FindSource(spec, layout_.InputDir(place.job_id)));
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

absl::Status StoreSteps::Analyze(const JobPlace& place, const job::JobSpec& spec, int trial,
                                 const std::string& measurement_json) {
  LY_ASSIGN_OR_RETURN(const std::string folder, MakeTrialFolder(place, spec, trial));
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
    auto trace = trace::ReadTrace(path);
    // Our own worker's trace must read: what is wrong with it is no fault of a user's file.
    if (!trace.ok()) {
      return MakeError(reason::kWorkerFailed,
                       absl::StrCat("the worker's trace: ", trace.status().message()));
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
    LY_RETURN_IF_ERROR(AsStoreError(
        WriteFile(absl::StrCat(StagingDir(project, place.job_id), "/", names.RepeatFile()),
                  analysis::WriteProfileJson(repeat))));
  }
  LY_RETURN_IF_ERROR(profiles_.Commit(project, place.job_id, names));
  const absl::Status listed =
      index_.SetProfiles({place.workspace, place.project}, profiles_.Scan(project, place.project));
  // Only a cache: the next start reads the files again.
  if (!listed.ok())
    LogError("profiles not listed", {{"job", place.job_id}, {"error", listed.message()}});
  CommittedResult result = DescribeResult(place.project, names, spec.trace);
  const int64_t history = FolderBytes(project + "/history");
  if (history >= kHistoryMentionBytes) {
    result.notes.push_back(absl::StrFormat("%s/history holds %.1f GiB of replaced results",
                                           place.project,
                                           static_cast<double>(history) / (int64_t{1} << 30)));
  }
  std::error_code ignored;
  fs::remove_all(layout_.InputDir(place.job_id), ignored);
  return result;
}

void StoreSteps::Discard(const JobPlace& place) {
  const auto project = layout_.ProjectDir(place.workspace, place.project);
  if (project.ok()) profiles_.Discard(*project, place.job_id);
  std::error_code ignored;
  fs::remove_all(layout_.InputDir(place.job_id), ignored);
}

}  // namespace libreyolo::daemon
