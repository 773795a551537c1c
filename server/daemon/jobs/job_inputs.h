// What a job reads, found: used both to refuse a job early and to fill in the worker's plan.
// Thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/job_spec.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/inputs/hub_download.h"
#include "server/daemon/inputs/weights_finder.h"
#include "server/daemon/jobs/job_preflight.h"
#include "server/daemon/store/blob_store.h"
#include "server/daemon/store/layout.h"

namespace libreyolo::daemon {

struct InputSettings {
  std::vector<std::string> weights_folders;
  std::string cache_dir;
  std::string hub_base_url;
  std::string hub_token;
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
  // Absolute paths; empty for the bundled sample. Uploaded files are linked under their names below
  // `input_dir`.
  absl::StatusOr<std::vector<std::string>> FindSource(const job::JobSpec& spec,
                                                      const std::string& input_dir) const;

 private:
  absl::StatusOr<WeightsPlaces> Places(const job::JobSpec& spec) const;
  absl::StatusOr<std::string> FindBlob(const job::InputRef::Blob& blob) const;

  const Layout& layout_;
  const BlobStore& blobs_;
  const DeviceInventory& devices_;
  const InputSettings settings_;
};

}  // namespace libreyolo::daemon
