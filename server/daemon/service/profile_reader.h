// Opens what a reader names, and keeps what was parsed warm in a bounded cache: the second question
// about a trace costs no parsing. Blocks on files; thread-safe.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/profile.h"
#include "common/base/fault_points.h"
#include "libreyolo/profile/v1/job.pb.h"
#include "libreyolo/profile/v1/profile.pb.h"
#include "server/daemon/service/caller.h"
#include "server/daemon/store/blob_store.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/layout.h"
#include "server/daemon/store/read_holds.h"
#include "server/daemon/store/upload_book.h"

namespace libreyolo::daemon {

class ProfileReader {
 public:
  ProfileReader(const Layout& layout, const BlobStore& blobs, Index& index, UploadBook& uploads,
                ReadHolds& holds, trace::ReadLimits limits, FaultHook at)
      : layout_(layout),
        blobs_(blobs),
        index_(index),
        uploads_(uploads),
        holds_(holds),
        limits_(limits),
        at_(std::move(at)) {}

  // Errors of every reader; see profiler.proto.
  absl::StatusOr<std::shared_ptr<const analysis::Profile>> Load(const profile::v1::TraceRef& ref,
                                                                const Caller& caller);
  // A profile with the events it was made of.
  struct WithTrace {
    analysis::Profile profile;
    std::optional<trace::RecordedTrace> trace;  // none: a profile without a trace beside it
    std::vector<std::string> notes;             // why there is none, for people
  };
  // The same with the trace: what was named, or what lies beside the profile that was. Not from the
  // cache, which holds no events.
  absl::StatusOr<WithTrace> LoadWithTrace(const profile::v1::TraceRef& ref, const Caller& caller);
  // A file that was named.
  struct Resolved {
    std::string path;       // absolute
    std::string shown;      // in the workspace
    std::string workspace;  // as the index knows it
    ReadHolds::Hold hold;   // retention leaves its result alone for as long as this lives
  };
  // A job id, or a path in the workspace of a profile, a trace, or the folder that holds a profile.
  // PROFILE_NOT_FOUND, JOB_NOT_FINISHED, PATH_REFUSED, PERMISSION_DENIED for another's workspace.
  absl::StatusOr<Resolved> Resolve(const std::string& name, const std::string& workspace,
                                   const Caller& caller);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const analysis::Profile> profile;
  };
  std::string NewestPlace(const profile::v1::Job& job, const std::string& workspace) const;
  // Without `shown` and `workspace`.
  absl::StatusOr<Resolved> FindPath(const profile::v1::TraceRef& ref, const Caller& caller);
  absl::StatusOr<analysis::Profile> LoadFresh(const profile::v1::TraceRef& ref,
                                              const Caller& caller, const std::string& path,
                                              const analysis::LoadOptions& options);
  // The trace that a profile's folder holds: absolute path, or empty.
  std::string TraceBeside(const profile::v1::TraceRef& ref, const Caller& caller,
                          const std::string& profile_path, const analysis::Profile& profile);

  const Layout& layout_;
  const BlobStore& blobs_;
  Index& index_;
  UploadBook& uploads_;
  ReadHolds& holds_;
  const trace::ReadLimits limits_;
  const FaultHook at_;      // asked at "read FILE" of what is not in the cache
  std::mutex mu_;           // guards cache_; not held while parsing
  std::list<Entry> cache_;  // newest first
};

}  // namespace libreyolo::daemon
