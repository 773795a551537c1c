// What a job reads, found: used both to refuse a job early and to fill in the worker's plan.
// Thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/job_spec.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/inputs/dataset_finder.h"
#include "server/daemon/inputs/hub_download.h"
#include "server/daemon/inputs/weights_finder.h"
#include "server/daemon/jobs/job_preflight.h"
#include "server/daemon/store/blob_store.h"
#include "server/daemon/store/layout.h"

namespace libreyolo::daemon {

struct InputSettings {
  std::vector<std::string> weights_folders;
  std::vector<std::string> datasets_folders;
  std::string cache_dir;
  std::string hub_base_url;
  std::string hub_token;
  // Users are told apart: what one of them has in a workspace may name files of that workspace and
  // of the datasets folders alone.
  bool confine_workspaces = false;
  // A job starts only while the project's disk has so much left.
  int64_t min_free_bytes = 0;
};

class JobInputs : public JobPreflight {
 public:
  JobInputs(const Layout& layout, const BlobStore& blobs, const DeviceInventory& devices,
            InputSettings settings)
      : layout_(layout), blobs_(blobs), devices_(devices), settings_(std::move(settings)) {}

  absl::StatusOr<std::string> Check(const job::JobSpec& spec, bool local_owner) override;

  struct Weights {
    std::string path;  // empty: random
    std::string digest;
  };
  // Downloads where it must.
  absl::StatusOr<Weights> FetchWeights(const job::JobSpec& spec, const std::atomic<bool>& cancelled,
                                       const DownloadProgress& progress) const;
  // What the job measures with, as absolute paths: pictures or a folder of them for inference, a
  // dataset's YAML file for a training; none for what is built in. Uploaded files are linked under
  // their names below `input_dir`. Downloads a published dataset.
  absl::StatusOr<std::vector<std::string>> FetchSource(const job::JobSpec& spec,
                                                       const std::string& input_dir,
                                                       const std::atomic<bool>& cancelled,
                                                       const DownloadProgress& progress) const;
  // Below which folders the files of `paths`, which FetchSource gave, must lie; none: anywhere.
  // What the admin put into a datasets folder, and what a local daemon's owner names, may lie
  // anywhere.
  absl::StatusOr<std::vector<std::string>> DataRoots(const job::JobSpec& spec,
                                                     const std::string& input_dir,
                                                     const std::vector<std::string>& paths) const;
  const InputSettings& settings() const { return settings_; }

 private:
  absl::StatusOr<WeightsPlaces> Places(const job::JobSpec& spec) const;
  absl::StatusOr<std::string> FindBlob(const job::InputRef::Blob& blob) const;
  // These two only look.
  absl::StatusOr<std::vector<std::string>> FindImages(const job::JobSpec& spec) const;
  absl::StatusOr<FoundDataset> FindData(const job::JobSpec& spec) const;
  // The files of an upload below `input_dir`, in order.
  absl::StatusOr<std::vector<std::string>> LinkBlobs(const job::JobSpec& spec,
                                                     const std::string& input_dir) const;

  const Layout& layout_;
  const BlobStore& blobs_;
  const DeviceInventory& devices_;
  const InputSettings settings_;
};

}  // namespace libreyolo::daemon
