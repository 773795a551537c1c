#include "server/daemon/jobs/job_inputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

using Kind = job::InputRef::Kind;

absl::Status CheckReadable(const std::string& path, const std::string& shown,
                           const Reason& missing) {
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return MakeError(missing, absl::StrCat("not found: ", shown), {},
                   {{"path", shown}, {"error", strerror(errno)}});
}

absl::Status OwnerOnly(const job::InputRef& ref, bool local_owner) {
  if (ref.kind != Kind::kLocal || local_owner) return absl::OkStatus();
  return MakeError(reason::kPathRefused, "files can be named by their path on a local daemon only",
                   {"upload the file, or put it into the workspace and name it from there"});
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
  if (spec.mode == job::Mode::kTrain) {
    return MakeError(reason::kUnimplemented,
                     "this version of libreyolod cannot profile trainings yet",
                     {"libreyolo profile infer measures inference"});
  }
  LY_RETURN_IF_ERROR(OwnerOnly(spec.weights, local_owner));
  LY_RETURN_IF_ERROR(OwnerOnly(spec.source, local_owner));
  if (!spec.cuda_visible_devices.empty() && !local_owner) {
    return MakeError(reason::kArgumentInvalid,
                     "CUDA_VISIBLE_DEVICES can be set on a local daemon only");
  }
  LY_ASSIGN_OR_RETURN(const std::string device, devices_.Resolve(spec.device));
  LY_RETURN_IF_ERROR(layout_.CheckProjectWritable(spec.workspace, spec.project));
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
  LY_RETURN_IF_ERROR(FindSource(spec, "").status());
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
      const auto result = DownloadFile(request, cancelled, progress);
      if (!result.ok()) {
        if (HasReason(result.status(), reason::kCancelled) ||
            HasReason(result.status(), reason::kDigestMismatch)) {
          return result.status();
        }
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

absl::StatusOr<std::vector<std::string>> JobInputs::FindSource(const job::JobSpec& spec,
                                                               const std::string& input_dir) const {
  const job::InputRef& source = spec.source;
  const Reason& missing =
      spec.mode == job::Mode::kTrain ? reason::kDatasetNotFound : reason::kSourceNotFound;
  switch (source.kind) {
    case Kind::kNone:
    case Kind::kRandom:
      return std::vector<std::string>{};
    case Kind::kLocal:
      LY_RETURN_IF_ERROR(CheckReadable(source.text, source.text, missing));
      return std::vector<std::string>{source.text};
    case Kind::kName: {
      auto path = layout_.ResolveExisting(spec.workspace, source.text);
      if (!path.ok() && absl::IsNotFound(path.status())) {
        return MakeError(missing, absl::StrCat("no images found at: ", source.text),
                         {"name an image or a folder of images",
                          "leave it out to measure the bundled sample image"});
      }
      LY_RETURN_IF_ERROR(path.status());
      return std::vector<std::string>{*path};
    }
    case Kind::kBlobs: {
      std::vector<std::string> paths;
      for (size_t i = 0; i < source.blobs.size(); ++i) {
        LY_ASSIGN_OR_RETURN(std::string blob, FindBlob(source.blobs[i]));
        if (input_dir.empty()) continue;  // only looking
        LY_RETURN_IF_ERROR(MakeDirectories(input_dir, 0700));
        // A number keeps the order and keeps equal names apart.
        const std::string link = absl::StrCat(input_dir, "/", i, "-", source.blobs[i].name);
        if (symlink(blob.c_str(), link.c_str()) != 0 && errno != EEXIST)
          return ErrnoStatus(errno, "link", link);
        paths.push_back(link);
      }
      return paths;
    }
  }
  return std::vector<std::string>{};
}

}  // namespace libreyolo::daemon
