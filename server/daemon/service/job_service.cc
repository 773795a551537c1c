#include "server/daemon/service/job_service.h"

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/rpc/parse_job_spec.h"
#include "server/daemon/service/stall_guard.h"
#include "server/daemon/service/unary.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr size_t kMaxRequestIdBytes = 128;
constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 100;
constexpr int64_t kLogTailBytes = 256 * 1024;

// Writes a job's events to one watcher. Lives until gRPC is done with it and the subscription's
// callback can no longer come, whichever is later.
class Watcher : public grpc::ServerWriteReactor<v1::JobEvent>,
                public std::enable_shared_from_this<Watcher> {
 public:
  // `hold` keeps the job's result while somebody watches.
  Watcher(CallGate& gate, grpc::CallbackServerContext& context, std::shared_ptr<void> slot,
          ReadHolds::Hold hold)
      : active_(gate.activity()),
        slot_(std::move(slot)),
        guard_(StallGuard::Start(context, gate.stall_timeout())),
        hold_(std::move(hold)) {}

  // `subscribe` runs on the control thread.
  void Begin(TaskRunner& runner,
             std::function<absl::Status(const std::shared_ptr<JobSubscription>&)> subscribe) {
    self_ = shared_from_this();
    std::weak_ptr<Watcher> weak = self_;
    subscription_ = std::make_shared<JobSubscription>([weak] {
      if (const auto watcher = weak.lock()) watcher->WriteNext();
    });
    // With a reference of its own: the caller may be gone before the task runs.
    runner.Post([watcher = self_, subscription = subscription_, subscribe = std::move(subscribe)] {
      const absl::Status status = subscribe(subscription);
      if (!status.ok()) watcher->End(rpc::ToGrpcStatus(status));
    });
  }

  void OnWriteDone(bool ok) override {
    guard_->Heard();
    {
      const std::lock_guard<std::mutex> lock(mu_);
      writing_ = false;
    }
    if (!ok) return End(grpc::Status::CANCELLED);
    WriteNext();
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    guard_->Stop();
    const std::shared_ptr<Watcher> last = std::move(self_);
    subscription_.reset();
  }

 private:
  void WriteNext() {
    bool done = false;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      if (writing_ || ended_) return;
      current_ = subscription_->Take(&done);
      if (current_ != nullptr) {
        writing_ = true;
        guard_->Await();
        StartWrite(current_.get());
        return;
      }
    }
    if (done) End(grpc::Status::OK);
  }

  void End(const grpc::Status& status) {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      if (ended_) return;
      ended_ = true;
    }
    Finish(status);
  }

  ActiveCall active_;
  const std::shared_ptr<void> slot_;
  const std::shared_ptr<StallGuard> guard_;
  const ReadHolds::Hold hold_;
  std::shared_ptr<Watcher> self_;  // gRPC's reference
  std::shared_ptr<JobSubscription> subscription_;
  std::mutex mu_;
  std::shared_ptr<const v1::JobEvent> current_;  // alive until its write is done
  bool writing_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<v1::Job> JobService::Find(const Caller& caller, const std::string& id) const {
  LY_ASSIGN_OR_RETURN(v1::Job job, deps_.jobs.Get(id));
  // Another's job reads as none, lest ids could be tried.
  if (!caller.MaySee(job.principal())) return NoSuchJob(id);
  return job;
}

absl::StatusOr<JobManager::Request> JobService::Check(const Caller& caller,
                                                      const v1::CreateJobRequest& request) const {
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat("request_id is longer than ", kMaxRequestIdBytes, " bytes"));
  }
  JobManager::Request out;
  out.wire = request.spec();
  LY_ASSIGN_OR_RETURN(*out.wire.mutable_workspace(),
                      WorkspaceFor(caller, request.spec().workspace()));
  LY_ASSIGN_OR_RETURN(out.spec, rpc::ParseJobSpec(out.wire));
  for (const job::InputRef* ref : {&out.spec.weights, &out.spec.source}) {
    for (const job::InputRef::Blob& blob : ref->blobs)
      LY_RETURN_IF_ERROR(deps_.uploads.CheckOwns(caller.principal, blob.digest, blob.name));
  }
  LY_RETURN_IF_ERROR(deps_.uploads.CheckRoom(caller.principal, out.spec.workspace));
  LY_ASSIGN_OR_RETURN(out.device, deps_.preflight.Check(out.spec, caller.local_owner));
  out.principal = caller.principal;
  out.request_id = request.request_id();
  out.call_id = caller.request_id;
  return out;
}

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const v1::CreateJobRequest* request,
                                                v1::Job* response) {
  Access access{Role::kSubmitter, "create_job"};
  const absl::StatusOr<Caller> admitted = deps_.gate.Admit(*context, access);
  if (!admitted.ok()) return Refuse(*context, admitted.status());
  auto* reactor = context->DefaultReactor();
  auto active = std::make_shared<ActiveCall>(deps_.gate.activity());
  // The checks look at files, the queue belongs to the control thread: one after the other.
  deps_.executor.SubmitFor(
      admitted->principal, [this, caller = *admitted, access, request, response, reactor, active] {
        auto checked = Check(caller, *request);
        if (!checked.ok() || request->validate_only()) {
          if (checked.ok()) *response->mutable_spec() = request->spec();
          if (!request->validate_only()) CallGate::Audit(caller, access, checked.status());
          return reactor->Finish(rpc::ToGrpcStatus(checked.status()));
        }
        deps_.runner.Post(
            [this, caller, access, response, reactor, active, job = *std::move(checked)]() mutable {
              absl::StatusOr<v1::Job> made = deps_.jobs.Submit(job);
              if (made.ok()) *response = *std::move(made);
              access.target = response->id();
              CallGate::Audit(caller, access, made.status());
              reactor->Finish(rpc::ToGrpcStatus(made.status()));
            });
      });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request, v1::Job* response) {
  return AnswerOn(deps_.runner, deps_.gate, *context, {Role::kViewer},
                  [this, request, response](const Caller& caller) -> absl::Status {
                    LY_ASSIGN_OR_RETURN(*response, Find(caller, request->id()));
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  return AnswerOn(
      deps_.runner, deps_.gate, *context, {Role::kViewer},
      [this, request, response](const Caller& caller) -> absl::Status {
        const int size =
            request->page_size() <= 0 ? kDefaultPage : std::min(request->page_size(), kMaxPage);
        std::string next;
        LY_ASSIGN_OR_RETURN(
            std::vector<v1::Job> jobs,
            deps_.jobs.List(
                {request->page_token(), size, request->active_only(), caller.OnlyJobsOf()}, &next));
        for (v1::Job& job : jobs) {
          if (job.spec().has_infer())
            job.mutable_spec()->mutable_infer()->mutable_source()->clear_blobs();
          if (job.spec().has_train())
            job.mutable_spec()->mutable_train()->mutable_data()->clear_blobs();
          *response->add_jobs() = std::move(job);
        }
        response->set_next_page_token(next);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::Job* response) {
  return AnswerOn(deps_.runner, deps_.gate, *context,
                  {Role::kSubmitter, "cancel_job", request->id()},
                  [this, request, response](const Caller& caller) -> absl::Status {
                    LY_RETURN_IF_ERROR(Find(caller, request->id()).status());
                    LY_ASSIGN_OR_RETURN(*response, deps_.jobs.Cancel(request->id()));
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* JobService::DeleteJob(grpc::CallbackServerContext* context,
                                                const v1::DeleteJobRequest* request,
                                                v1::DeleteJobResponse*) {
  return AnswerOn(deps_.runner, deps_.gate, *context,
                  {Role::kSubmitter, "delete_job", request->id()},
                  [this, request](const Caller& caller) -> absl::Status {
                    LY_RETURN_IF_ERROR(Find(caller, request->id()).status());
                    return deps_.jobs.Delete(request->id());
                  });
}

grpc::ServerUnaryReactor* JobService::GetJobLog(grpc::CallbackServerContext* context,
                                                const v1::GetJobLogRequest* request,
                                                v1::GetJobLogResponse* response) {
  return AnswerOn(deps_.runner, deps_.gate, *context, {Role::kViewer},
                  [this, request, response](const Caller& caller) -> absl::Status {
                    LY_ASSIGN_OR_RETURN(const v1::Job job, Find(caller, request->id()));
                    std::string text = TailOfFile(deps_.log_path(job.id()), kLogTailBytes);
                    // proto3 text must be UTF-8; a worker may have written anything.
                    for (char& c : text) {
                      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
                    }
                    response->set_text(text);
                    return absl::OkStatus();
                  });
}

grpc::ServerWriteReactor<v1::JobEvent>* JobService::WatchJob(grpc::CallbackServerContext* context,
                                                             const v1::WatchJobRequest* request) {
  absl::StatusOr<Caller> caller = deps_.gate.Admit(*context, {Role::kViewer});
  if (!caller.ok()) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::JobEvent>>(caller.status());
  }
  const auto watcher = std::make_shared<Watcher>(deps_.gate, *context, caller->slot,
                                                 deps_.holds.OfJob(request->id()));
  watcher->Begin(deps_.runner, [this, caller = *std::move(caller), id = request->id(),
                                after = request->after_sequence()](
                                   const std::shared_ptr<JobSubscription>& subscription) {
    const absl::Status found = Find(caller, id).status();
    return found.ok() ? deps_.jobs.Watch(id, after, subscription) : found;
  });
  return watcher.get();
}

}  // namespace libreyolo::daemon
