#include "server/daemon/inputs/dataset_fetcher.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "server/daemon/inputs/unpack_zip.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

// COCO's classes; what they are called matters to nobody here.
constexpr int kCocoClassCount = 80;

// The folder with `images` in it: the archive's top, or the one folder that stands there.
absl::StatusOr<std::string> FindTop(const std::string& unpacked, const std::string& name) {
  for (const std::string& top : {unpacked, absl::StrCat(unpacked, "/", name)}) {
    std::error_code error;
    if (fs::is_directory(top + "/images", error)) return top;
  }
  return MakeError(reason::kDatasetInvalid,
                   absl::StrCat("the archive of ", name, " holds no folder images"),
                   {"name a dataset YAML file of your own instead"});
}

absl::Status Publish(const std::string& top, const std::string& folder) {
  LY_RETURN_IF_ERROR(
      WriteFile(top + "/data.yaml",
                absl::StrCat("# Made by libreyolod; deleted, the dataset is fetched again.\n",
                             "train: images\nval: images\nnc: ", kCocoClassCount, "\n")));
  std::error_code error;
  if (rename(top.c_str(), folder.c_str()) == 0 || fs::exists(folder + "/data.yaml", error)) {
    return absl::OkStatus();  // or another process made it meanwhile
  }
  return ErrnoStatus(errno, "make", folder);
}

}  // namespace

absl::StatusOr<std::string> FetchDataset(const FoundDataset& dataset,
                                         const std::string& bearer_token, int64_t min_free_bytes,
                                         const std::atomic<bool>& cancelled,
                                         const DownloadProgress& progress) {
  DownloadRequest request;
  request.url = dataset.url;
  request.target = dataset.archive;
  request.bearer_token = bearer_token;
  request.min_free_bytes = min_free_bytes;
  const auto result = DownloadFile(request, cancelled, progress);
  if (!result.ok()) {
    if (TellsAll(result.status())) return result.status();
    return DatasetNotFound(dataset.name,
                           absl::StrCat("it is not in the workspace, the datasets folders or the "
                                        "cache, and ",
                                        result.status().message()));
  }
  const std::string staging = absl::StrCat(dataset.folder, ".", getpid(), ".tmp");
  const absl::Cleanup remove_staging = [&staging] {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
  };
  UnpackLimits limits;
  limits.min_free_bytes = min_free_bytes;
  const absl::Status unpacked = UnpackZip(dataset.archive, staging, limits, cancelled, nullptr);
  if (absl::IsInvalidArgument(unpacked)) {
    // What was downloaded is of no use: the next try fetches it anew.
    unlink(dataset.archive.c_str());
    return MakeError(reason::kDatasetInvalid, unpacked.message());
  }
  LY_RETURN_IF_ERROR(unpacked);
  LY_ASSIGN_OR_RETURN(const std::string top, FindTop(staging, dataset.name));
  LY_RETURN_IF_ERROR(Publish(top, dataset.folder));
  return dataset.folder + "/data.yaml";
}

}  // namespace libreyolo::daemon
