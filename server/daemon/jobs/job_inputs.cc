#include "server/daemon/jobs/job_inputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "server/daemon/inputs/dataset_fetcher.h"
#include "server/daemon/store/disk_room.h"

namespace libreyolo::daemon {
namespace {

using Kind = job::InputRef::Kind;

absl::Status CheckReadable(const std::string& path, const std::string& shown,
                           const Reason& missing) {
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  const int error = errno;
  const bool is_there = error == EACCES || error == EPERM;
  return MakeError(
      missing,
      is_there ? absl::StrCat("cannot read ", shown, ": ", strerror(error))
               : absl::StrCat("not found: ", shown),
      {is_there ? "let the account that runs libreyolod read it"
                : "correct the path: it counts from the workspace; ./PATH is a file of "
                  "your own"},
      {{"path", shown}, {"error", strerror(error)}});
}

absl::Status OwnerOnly(const job::InputRef& ref, bool local_owner) {
  if (ref.kind != Kind::kLocal || local_owner) return absl::OkStatus();
  return MakeError(reason::kPathRefused, "files can be named by their path on a local daemon only",
                   {"upload the file, or put it into the workspace and name it from there"});
}

// The file itself under another name, which no link leads out of the folder from.
absl::Status PlaceFile(const std::string& content, const std::string& name) {
  if (link(content.c_str(), name.c_str()) == 0 || errno == EEXIST) return absl::OkStatus();
  // A file system without hard links, or one that has given out as many as it can.
  std::error_code error;
  std::filesystem::copy_file(content, name, error);
  return error ? ErrnoStatus(error.value(), "copy an upload to", name) : absl::OkStatus();
}

// The dataset file among the uploaded ones, relative to the folder that they came from.
absl::StatusOr<std::string> DatasetFileOfUpload(const job::InputRef& data) {
  std::string found;
  for (const job::InputRef::Blob& blob : data.blobs) {
    const bool is_top = !absl::StrContains(blob.name, '/');
    if (!is_top || !(absl::EndsWith(blob.name, ".yaml") || absl::EndsWith(blob.name, ".yml"))) {
      continue;
    }
    if (blob.name == "data.yaml") return blob.name;
    if (!found.empty()) {
      return MakeError(
          reason::kDatasetInvalid,
          absl::StrCat("the upload holds several dataset files: ", found, ", ", blob.name),
          {"upload one, or call it data.yaml"});
    }
    found = blob.name;
  }
  if (!found.empty()) return found;
  return MakeError(reason::kDatasetInvalid, "the upload holds no dataset file (.yaml)",
                   {"name the dataset's YAML file, or a folder that holds one"});
}

}  // namespace

absl::StatusOr<WeightsPlaces> JobInputs::Places(const job::JobSpec& spec) const {
  WeightsPlaces places;
  LY_ASSIGN_OR_RETURN(places.workspace_root, layout_.WorkspaceRoot(spec.workspace));
  places.link_rule = layout_.link_rule();
  places.server_folders = settings_.weights_folders;
  places.cache_dir = settings_.cache_dir;
  places.hub_base_url = settings_.hub_base_url;
  return places;
}

absl::StatusOr<std::string> JobInputs::FindBlob(const job::InputRef::Blob& blob) const {
  if (blobs_.Has(blob.digest)) return blobs_.Path(blob.digest);
  return MakeError(reason::kBlobNotFound, absl::StrCat("\"", blob.name, "\" was not uploaded"), {},
                   {{"digest", blob.digest}});
}

absl::StatusOr<std::string> JobInputs::Check(const job::JobSpec& spec, bool local_owner) {
  LY_RETURN_IF_ERROR(OwnerOnly(spec.weights, local_owner));
  LY_RETURN_IF_ERROR(OwnerOnly(spec.source, local_owner));
  if (!spec.cuda_visible_devices.empty() && !local_owner) {
    return MakeError(reason::kArgumentInvalid,
                     "CUDA_VISIBLE_DEVICES can be set on a local daemon only",
                     {"name the device: libreyolo devices shows the server's"});
  }
  LY_ASSIGN_OR_RETURN(const std::string device,
                      devices_.Resolve(spec.device, spec.cuda_visible_devices));
  LY_RETURN_IF_ERROR(layout_.CheckProjectWritable(spec.workspace, spec.project));
  LY_ASSIGN_OR_RETURN(const std::string project, layout_.ProjectDir(spec.workspace, spec.project));
  LY_RETURN_IF_ERROR(CheckDiskRoom(project, 0, settings_.min_free_bytes, "a job's results"));
  switch (spec.weights.kind) {
    case Kind::kName: {
      LY_ASSIGN_OR_RETURN(const WeightsPlaces places, Places(spec));
      LY_RETURN_IF_ERROR(FindWeights(spec.weights.text, places).status());
      break;
    }
    case Kind::kLocal:
      LY_RETURN_IF_ERROR(
          CheckReadable(spec.weights.text, spec.weights.text, reason::kWeightsNotFound));
      break;
    case Kind::kBlobs:
      LY_RETURN_IF_ERROR(FindBlob(spec.weights.blobs[0]).status());
      break;
    case Kind::kNone:
    case Kind::kRandom:
      break;
  }
  for (const job::InputRef::Blob& blob : spec.source.blobs)
    LY_RETURN_IF_ERROR(FindBlob(blob).status());
  LY_RETURN_IF_ERROR(spec.mode == job::Mode::kTrain ? FindData(spec).status()
                                                    : FindImages(spec).status());
  return device;
}

absl::StatusOr<JobInputs::Weights> JobInputs::FetchWeights(const job::JobSpec& spec,
                                                           const std::atomic<bool>& cancelled,
                                                           const DownloadProgress& progress) const {
  Weights weights;
  switch (spec.weights.kind) {
    case Kind::kNone:
    case Kind::kRandom:
      return weights;
    case Kind::kLocal:
      weights.path = spec.weights.text;
      break;
    case Kind::kBlobs: {
      LY_ASSIGN_OR_RETURN(weights.path, FindBlob(spec.weights.blobs[0]));
      weights.digest = spec.weights.blobs[0].digest;
      return weights;
    }
    case Kind::kName: {
      LY_ASSIGN_OR_RETURN(const WeightsPlaces places, Places(spec));
      LY_ASSIGN_OR_RETURN(const FoundWeights found, FindWeights(spec.weights.text, places));
      weights.path = found.path;
      if (!found.path.empty()) break;
      DownloadRequest request;
      request.url = found.url;
      request.target = found.target;
      request.bearer_token = settings_.hub_token;
      request.min_free_bytes = settings_.min_free_bytes;
      const auto result = DownloadFile(request, cancelled, progress);
      if (!result.ok()) {
        if (TellsAll(result.status())) return result.status();
        return WeightsNotFound(spec.weights.text,
                               absl::StrCat("looked in weights/, the workspace and the cache, and ",
                                            result.status().message()));
      }
      weights.path = found.target;
      weights.digest = result->digest;
      return weights;
    }
  }
  LY_ASSIGN_OR_RETURN(weights.digest, Sha256HexOfFile(weights.path));
  return weights;
}

absl::StatusOr<std::vector<std::string>> JobInputs::FindImages(const job::JobSpec& spec) const {
  const job::InputRef& source = spec.source;
  if (source.kind == Kind::kLocal) {
    LY_RETURN_IF_ERROR(CheckReadable(source.text, source.text, reason::kSourceNotFound));
    return std::vector<std::string>{source.text};
  }
  if (source.kind != Kind::kName) return std::vector<std::string>{};
  auto path = layout_.ResolveExisting(spec.workspace, source.text);
  if (!path.ok() && absl::IsNotFound(path.status())) {
    return MakeError(reason::kSourceNotFound, absl::StrCat("no images found at: ", source.text),
                     {"name an image or a folder of images",
                      "leave it out to measure the bundled sample image"});
  }
  LY_RETURN_IF_ERROR(path.status());
  return std::vector<std::string>{*path};
}

absl::StatusOr<FoundDataset> JobInputs::FindData(const job::JobSpec& spec) const {
  const job::InputRef& data = spec.source;
  FoundDataset found;
  if (data.kind == Kind::kLocal) {
    LY_RETURN_IF_ERROR(CheckReadable(data.text, data.text, reason::kDatasetNotFound));
    LY_ASSIGN_OR_RETURN(found.yaml_path, DatasetFileOf(data.text, data.text));
    return found;
  }
  if (data.kind == Kind::kBlobs) {
    LY_ASSIGN_OR_RETURN(found.yaml_path, DatasetFileOfUpload(data));
    return found;
  }
  DatasetPlaces places;
  LY_ASSIGN_OR_RETURN(places.workspace_root, layout_.WorkspaceRoot(spec.workspace));
  places.link_rule = layout_.link_rule();
  places.server_folders = settings_.datasets_folders;
  places.cache_dir = settings_.cache_dir;
  places.hub_base_url = settings_.hub_base_url;
  return FindDataset(data.text, places);
}

absl::StatusOr<std::vector<std::string>> JobInputs::LinkBlobs(const job::JobSpec& spec,
                                                              const std::string& input_dir) const {
  std::vector<std::string> paths;
  for (size_t i = 0; i < spec.source.blobs.size(); ++i) {
    const job::InputRef::Blob& blob = spec.source.blobs[i];
    LY_ASSIGN_OR_RETURN(const std::string content, FindBlob(blob));
    // A dataset's files keep their places. Pictures get a number, which keeps their order and keeps
    // equal names apart.
    const std::string link = spec.mode == job::Mode::kTrain
                                 ? absl::StrCat(input_dir, "/", blob.name)
                                 : absl::StrCat(input_dir, "/", i, "-", blob.name);
    LY_RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(link).parent_path().string(), 0700));
    LY_RETURN_IF_ERROR(PlaceFile(content, link));
    paths.push_back(link);
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> JobInputs::FetchSource(
    const job::JobSpec& spec, const std::string& input_dir, const std::atomic<bool>& cancelled,
    const DownloadProgress& progress) const {
  std::vector<std::string> uploaded;
  if (spec.source.kind == Kind::kBlobs) {
    LY_ASSIGN_OR_RETURN(uploaded, LinkBlobs(spec, input_dir));
    if (spec.mode == job::Mode::kInfer) return uploaded;
  }
  if (spec.mode == job::Mode::kInfer) return FindImages(spec);
  LY_ASSIGN_OR_RETURN(FoundDataset found, FindData(spec));
  if (found.is_sample) return std::vector<std::string>{};
  if (!uploaded.empty()) found.yaml_path = absl::StrCat(input_dir, "/", found.yaml_path);
  if (found.yaml_path.empty()) {
    LY_ASSIGN_OR_RETURN(
        found.yaml_path,
        FetchDataset(found, settings_.hub_token, settings_.min_free_bytes, cancelled, progress));
  }
  return std::vector<std::string>{found.yaml_path};
}

absl::StatusOr<std::vector<std::string>> JobInputs::DataRoots(
    const job::JobSpec& spec, const std::string& input_dir,
    const std::vector<std::string>& paths) const {
  std::vector<std::string> roots;
  if (layout_.config().local || paths.empty() || spec.source.kind == Kind::kLocal) return roots;
  if (spec.source.kind == Kind::kBlobs) {
    roots.push_back(input_dir);
  } else {
    if (!settings_.confine_workspaces) return roots;
    LY_ASSIGN_OR_RETURN(const std::string workspace, layout_.WorkspaceRoot(spec.workspace));
    std::error_code error;
    const std::string real = std::filesystem::canonical(workspace, error).string();
    const bool is_own = absl::StartsWith(paths[0], workspace + "/") ||
                        (!error && absl::StartsWith(paths[0], real + "/")) ||
                        paths[0] == workspace || paths[0] == real;
    if (!is_own) return roots;
    roots.push_back(workspace);
  }
  // Which anybody may name anyway.
  if (spec.mode == job::Mode::kTrain) {
    roots.insert(roots.end(), settings_.datasets_folders.begin(), settings_.datasets_folders.end());
  }
  return roots;
}

}  // namespace libreyolo::daemon
