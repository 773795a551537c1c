#include "server/daemon/service/profile_service.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/analysis/metrics.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/rpc/convert_analysis.h"
#include "server/daemon/service/blob_receiver.h"
#include "server/daemon/service/stall_guard.h"
#include "server/daemon/service/unary.h"
#include "server/daemon/store/profile_store.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr int64_t kMaxPageBytes =
    700 * 1024;  // a message stays below 1 MiB with what else is in it
constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 100;
constexpr int kMaxDigests = 10'000;
constexpr size_t kChunkBytes = 256 * 1024;
constexpr size_t kMaxPatternBytes = 4096;

// What the reports call what was read.
std::string Shown(const v1::TraceRef& ref) {
  return ref.typed().empty() ? ref.name() : ref.typed();
}

absl::StatusOr<size_t> ParsePageToken(const std::string& token) {
  int64_t offset = 0;
  if (!token.empty() && (!absl::SimpleAtoi(token, &offset) || offset < 0)) {
    return MakeError(reason::kArgumentInvalid, "the page token is not one that this server gave",
                     {"begin again without a page token"});
  }
  return static_cast<size_t>(offset);
}

// Puts rows from `token` on into `response` until it is as large as a message should be.
template <typename Rows, typename Response>
absl::Status FillPage(const Rows& rows, const std::string& token, Response& response) {
  LY_ASSIGN_OR_RETURN(size_t offset, ParsePageToken(token));
  int64_t bytes = 0;
  for (; offset < rows.size() && bytes < kMaxPageBytes; ++offset) {
    auto& row = *response.add_rows();
    row = rpc::ToProto(rows[offset]);
    bytes += static_cast<int64_t>(row.ByteSizeLong());
  }
  if (offset < rows.size()) response.set_next_page_token(absl::StrCat(offset));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* ProfileService::GetSummary(Context* context,
                                                     const v1::GetSummaryRequest* request,
                                                     v1::SummaryReport* response) {
  return AnswerOn(
      deps_.readers, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        LY_ASSIGN_OR_RETURN(const auto profile, deps_.reader.Load(request->trace(), caller));
        *response = rpc::ToProto(analysis::Summarize(*profile), Shown(request->trace()));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ProfileService::GetMetric(Context* context,
                                                    const v1::GetMetricRequest* request,
                                                    v1::GetMetricResponse* response) {
  return AnswerOn(
      deps_.readers, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        LY_ASSIGN_OR_RETURN(const auto profile, deps_.reader.Load(request->trace(), caller));
        if (request->field().empty()) {
          for (const std::string& name : analysis::ListMetrics(*profile)) response->add_names(name);
          return absl::OkStatus();
        }
        LY_ASSIGN_OR_RETURN(const JsonValue value, analysis::GetMetric(*profile, request->field(),
                                                                       Shown(request->trace())));
        *response->mutable_value() = rpc::ToMetricValue(value);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ProfileService::GetPhases(Context* context,
                                                    const v1::GetPhasesRequest* request,
                                                    v1::PhasesReport* response) {
  return AnswerOn(
      deps_.readers, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        LY_ASSIGN_OR_RETURN(const auto profile, deps_.reader.Load(request->trace(), caller));
        *response = rpc::ToProto(analysis::ReportPhases(*profile), Shown(request->trace()));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ProfileService::GetKernels(Context* context,
                                                     const v1::GetKernelsRequest* request,
                                                     v1::KernelsReport* response) {
  return AnswerOn(
      deps_.readers, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        if (request->grep().size() > kMaxPatternBytes) {
          return MakeError(reason::kArgumentInvalid,
                           absl::StrCat("--grep is longer than ", kMaxPatternBytes, " bytes"),
                           {"search for a shorter piece of the name"});
        }
        LY_ASSIGN_OR_RETURN(const auto profile, deps_.reader.Load(request->trace(), caller));
        analysis::KernelQuery query;
        query.top = request->top();
        query.category = request->category();
        query.grep = request->grep();
        query.tensorcore = request->tensor_core_only();
        if (!request->sort().empty()) {
          LY_ASSIGN_OR_RETURN(query.sort, analysis::ParseKernelSort(request->sort()));
        }
        query.phase = request->phase();
        LY_ASSIGN_OR_RETURN(const analysis::KernelsReport report,
                            analysis::ReportKernels(*profile, query));
        *response = rpc::ToProto(report);
        return FillPage(report.rows, request->page_token(), *response);
      });
}

grpc::ServerUnaryReactor* ProfileService::GetOps(Context* context, const v1::GetOpsRequest* request,
                                                 v1::OpsReport* response) {
  return AnswerOn(
      deps_.readers, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        LY_ASSIGN_OR_RETURN(const auto profile, deps_.reader.Load(request->trace(), caller));
        LY_ASSIGN_OR_RETURN(const analysis::OpsReport report,
                            analysis::ReportOps(*profile, {request->top(), request->phase()}));
        *response = rpc::ToProto(report);
        return FillPage(report.rows, request->page_token(), *response);
      });
}

grpc::ServerUnaryReactor* ProfileService::Compare(Context* context,
                                                  const v1::CompareRequest* request,
                                                  v1::CompareReport* response) {
  return AnswerOn(
      deps_.readers, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        analysis::CompareQuery query;
        query.before_name = Shown(request->before());
        query.after_name = Shown(request->after());
        query.force = request->force();
        for (const absl::string_view text :
             absl::StrSplit(request->fail_on(), '\n', absl::SkipEmpty())) {
          LY_ASSIGN_OR_RETURN(analysis::FailCondition condition,
                              analysis::ParseFailCondition(text));
          query.fail_on.push_back(std::move(condition));
        }
        LY_ASSIGN_OR_RETURN(const auto before, deps_.reader.Load(request->before(), caller));
        LY_ASSIGN_OR_RETURN(const auto after, deps_.reader.Load(request->after(), caller));
        LY_ASSIGN_OR_RETURN(const analysis::CompareReport report,
                            analysis::Compare(*before, *after, query));
        *response = rpc::ToProto(report);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ProfileService::WhatIf(Context* context, const v1::WhatIfRequest* request,
                                                 v1::WhatIfReport* response) {
  return AnswerOn(deps_.readers, deps_.gate, *context, {Role::kViewer},
                  [this, request, response](const Caller& caller) -> absl::Status {
                    LY_ASSIGN_OR_RETURN(const auto profile,
                                        deps_.reader.Load(request->trace(), caller));
                    analysis::WhatIfQuery query;
                    if (!request->remove_category().empty())
                      query.remove_category = request->remove_category();
                    if (request->has_remove_launches())
                      query.remove_launches = request->remove_launches();
                    LY_ASSIGN_OR_RETURN(const analysis::WhatIfReport report,
                                        analysis::ProjectWhatIf(*profile, query));
                    *response = rpc::ToProto(report, Shown(request->trace()));
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* ProfileService::ListProfiles(Context* context,
                                                       const v1::ListProfilesRequest* request,
                                                       v1::ListProfilesResponse* response) {
  return AnswerOn(
      deps_.executor, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        LY_ASSIGN_OR_RETURN(const size_t offset, ParsePageToken(request->page_token()));
        const int size =
            request->page_size() <= 0 ? kDefaultPage : std::min(request->page_size(), kMaxPage);
        LY_ASSIGN_OR_RETURN(const std::string workspace,
                            WorkspaceFor(caller, request->workspace()));
        LY_ASSIGN_OR_RETURN(std::vector<v1::ProfileInfo> profiles,
                            deps_.index.ListProfiles(workspace, request->include_replaced(),
                                                     static_cast<int64_t>(offset), size + 1));
        if (static_cast<int>(profiles.size()) > size) {
          profiles.resize(static_cast<size_t>(size));
          response->set_next_page_token(absl::StrCat(offset + static_cast<size_t>(size)));
        }
        for (v1::ProfileInfo& info : profiles) *response->add_profiles() = std::move(info);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ProfileService::GetProfile(Context* context,
                                                     const v1::GetProfileRequest* request,
                                                     v1::ProfileInfo* response) {
  return AnswerOn(deps_.readers, deps_.gate, *context, {Role::kViewer},
                  [this, request, response](const Caller& caller) -> absl::Status {
                    LY_ASSIGN_OR_RETURN(
                        const ProfileReader::Resolved named,
                        deps_.reader.Resolve(request->name(), request->workspace(), caller));
                    LY_ASSIGN_OR_RETURN(*response, Describe(named, request->name()));
                    const std::string folder = std::filesystem::path(named.path).parent_path();
                    for (v1::ProfileFile& file : *response->mutable_files()) {
                      LY_ASSIGN_OR_RETURN(*file.mutable_digest(),
                                          Sha256HexOfFile(absl::StrCat(folder, "/", file.name())));
                    }
                    return absl::OkStatus();
                  });
}

absl::StatusOr<v1::ProfileInfo> ProfileService::Describe(const ProfileReader::Resolved& named,
                                                         const std::string& typed) const {
  auto info = DescribeProfile(named.path, named.shown);
  if (!info.ok()) {
    return MakeError(reason::kTraceUnparsable,
                     absl::StrCat("\"", typed, "\" is no profile: ", info.status().message()),
                     {"name a profile.json, a *_repeat.json or the folder that holds one"});
  }
  DescribeTrials(named.path, *info);
  LY_ASSIGN_OR_RETURN(const auto known, deps_.index.FindResult(named.workspace, info->job()));
  info->set_pinned(known.has_value() && known->pinned);
  return info;
}

grpc::ServerUnaryReactor* ProfileService::SetPin(Context* context, const v1::SetPinRequest* request,
                                                 v1::ProfileInfo* response) {
  return AnswerOn(
      deps_.executor, deps_.gate, *context,
      {Role::kSubmitter, request->pinned() ? "pin_profile" : "unpin_profile", request->name()},
      [this, request, response](const Caller& caller) -> absl::Status {
        LY_ASSIGN_OR_RETURN(const ProfileReader::Resolved named,
                            deps_.reader.Resolve(request->name(), request->workspace(), caller));
        LY_ASSIGN_OR_RETURN(*response, Describe(named, request->name()));
        const std::string& job = response->job();
        LY_ASSIGN_OR_RETURN(const auto known, deps_.index.FindResult(named.workspace, job));
        LY_ASSIGN_OR_RETURN(const auto record, deps_.index.Find(job));
        if (job.empty() || (!known.has_value() && !record.has_value())) {
          return MakeError(reason::kArgumentInvalid,
                           absl::StrCat("\"", request->name(),
                                        "\" was made by no job of this server, whose retention "
                                        "never removes it: it needs no pin"));
        }
        LY_RETURN_IF_ERROR(deps_.index.SetPinned(named.workspace, job, request->pinned()));
        response->set_pinned(request->pinned());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ProfileService::FindMissingBlobs(
    Context* context, const v1::FindMissingBlobsRequest* request,
    v1::FindMissingBlobsResponse* response) {
  return AnswerOn(deps_.executor, deps_.gate, *context, {Role::kViewer},
                  [this, request, response](const Caller& caller) -> absl::Status {
                    if (request->digests_size() > kMaxDigests) {
                      return MakeError(reason::kLimitExceeded,
                                       absl::StrCat("more than ", kMaxDigests, " digests"));
                    }
                    for (const std::string& digest : request->digests()) {
                      if (!IsSha256Hex(digest))
                        return MakeError(reason::kArgumentInvalid,
                                         "a digest has 64 lower-case hex digits");
                      if (deps_.uploads.Owns(caller.principal, digest)) continue;
                      response->add_digests(digest);
                      const int64_t received = deps_.blobs.Received(caller.principal, digest);
                      if (received == 0) continue;
                      v1::PartialBlob& partial = *response->add_partial();
                      partial.set_digest(digest);
                      partial.set_received_bytes(received);
                    }
                    return absl::OkStatus();
                  });
}

namespace {

// Sends a file in chunks. Each read runs on the executor; gRPC's threads only hand over.
class FileSender : public grpc::ServerWriteReactor<v1::DownloadChunk> {
 public:
  FileSender(CallGate& gate, Executor& executor, grpc::CallbackServerContext& context,
             const Caller& caller)
      : active_(gate.activity()),
        slot_(caller.slot),
        principal_(caller.principal),
        executor_(executor),
        guard_(StallGuard::Start(context, gate.stall_timeout())) {}

  // `find` gives the file and a hold on its result.
  void Begin(std::function<absl::StatusOr<std::string>(ReadHolds::Hold& hold)> find,
             int64_t offset) {
    offset_ = offset;
    executor_.SubmitFor(principal_, [this, find = std::move(find)] {
      const absl::StatusOr<std::string> path = find(hold_);
      const absl::Status status = path.ok() ? Open(*path) : path.status();
      if (!status.ok()) return Finish(rpc::ToGrpcStatus(status));
      Next();
    });
  }

  void OnWriteDone(bool ok) override {
    guard_->Heard();
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (done_) return Finish(grpc::Status::OK);
    executor_.SubmitFor(principal_, [this] { Next(); });
  }
  void OnDone() override {
    guard_->Stop();
    delete this;
  }

 private:
  absl::Status Open(const std::string& path) {
    fd_ = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info;
    if (!fd_ || fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "open", path);
    total_ = info.st_size;
    if (offset_ < 0 || offset_ > total_) {
      return MakeError(reason::kArgumentOutOfRange,
                       absl::StrCat("the offset ", offset_, " is past the file's end"));
    }
    return absl::OkStatus();
  }

  void Next() {
    chunk_.Clear();
    std::string& data = *chunk_.mutable_data();
    data.resize(static_cast<size_t>(std::min<int64_t>(kChunkBytes, total_ - offset_)));
    const ssize_t got = pread(fd_.get(), data.data(), data.size(), offset_);
    if (got < 0 || static_cast<size_t>(got) != data.size()) {
      return Finish(rpc::ToGrpcStatus(MakeError(
          reason::kStoreFailed, "the file changed while it was read", {"run the command again"})));
    }
    chunk_.set_offset(offset_);
    chunk_.set_total_bytes(total_);
    offset_ += got;
    if (offset_ == total_) {
      // Of what was sent, also when another result stands at the path by now.
      const auto digest = Sha256HexOfFile(absl::StrCat("/proc/self/fd/", fd_.get()));
      if (!digest.ok()) return Finish(rpc::ToGrpcStatus(digest.status()));
      chunk_.set_digest(*digest);
      done_ = true;
    }
    guard_->Await();
    StartWrite(&chunk_);
  }

  ActiveCall active_;
  const std::shared_ptr<void> slot_;
  const std::string principal_;
  Executor& executor_;
  const std::shared_ptr<StallGuard> guard_;
  ReadHolds::Hold hold_;
  UniqueFd fd_;
  int64_t offset_ = 0;
  int64_t total_ = 0;
  bool done_ = false;
  v1::DownloadChunk chunk_;
};

}  // namespace

grpc::ServerWriteReactor<v1::DownloadChunk>* ProfileService::DownloadProfile(
    Context* context, const v1::DownloadProfileRequest* request) {
  absl::StatusOr<Caller> caller = deps_.gate.Admit(*context, {Role::kViewer});
  if (!caller.ok()) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::DownloadChunk>>(caller.status());
  }
  auto* sender = new FileSender(deps_.gate, deps_.executor, *context, *caller);
  sender->Begin(
      [this, caller = *std::move(caller), path = request->path(), workspace = request->workspace(),
       file = request->file()](ReadHolds::Hold& hold) -> absl::StatusOr<std::string> {
        if (file.empty() || absl::StrContains(file, '/') || file == "." || file == "..") {
          return MakeError(reason::kPathRefused,
                           absl::StrCat("\"", file, "\" is no file of a profile"),
                           {"libreyolo profile fetch copies a profile's files"});
        }
        LY_ASSIGN_OR_RETURN(ProfileReader::Resolved named,
                            deps_.reader.Resolve(path, workspace, caller));
        hold = std::move(named.hold);
        // Only what the profile's listing shows can be fetched.
        LY_ASSIGN_OR_RETURN(const v1::ProfileInfo info, DescribeProfile(named.path, named.shown));
        for (const v1::ProfileFile& known : info.files()) {
          if (known.name() != file) continue;
          const auto place = std::filesystem::path(named.path).parent_path() / file;
          std::error_code error;
          if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(place, error))) {
            return MakeError(reason::kPathRefused,
                             absl::StrCat("\"", file, "\" is no file but a link"),
                             {"put the file itself there"});
          }
          return place.string();
        }
        return MakeError(reason::kProfileNotFound,
                         absl::StrCat("the profile has no file \"", file, "\""),
                         {"libreyolo profile list --json names the files of each"});
      },
      request->offset());
  return sender;
}

grpc::ServerReadReactor<v1::UploadBlobRequest>* ProfileService::UploadBlob(
    Context* context, v1::UploadBlobResponse* response) {
  absl::StatusOr<Caller> caller = deps_.gate.Admit(*context, {Role::kSubmitter, "upload_blob"});
  if (!caller.ok()) {
    return new RefusedStream<grpc::ServerReadReactor<v1::UploadBlobRequest>>(caller.status());
  }
  return ReceiveBlob({deps_.gate, deps_.executor, deps_.blobs, deps_.uploads}, *context,
                     *std::move(caller), *response);
}

}  // namespace libreyolo::daemon
