// ProfileService::ExportTimeline: the page is made where long reads are and sent in chunks.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/analysis/timeline/timeline_page.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/daemon/service/profile_service.h"
#include "server/daemon/service/stall_guard.h"
#include "server/daemon/service/unary.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr size_t kChunkBytes = 256 * 1024;
constexpr int64_t kFewestSlices = 1'000;
constexpr int64_t kMostSlices = 5'000'000;

absl::StatusOr<analysis::TimelinePage> MakePage(ProfileReader& reader,
                                                const v1::ExportTimelineRequest& request,
                                                const Caller& caller, bool* has_trace) {
  analysis::TimelineOptions options;
  if (request.max_slices() != 0) options.max_slices = request.max_slices();
  if (options.max_slices < kFewestSlices || options.max_slices > kMostSlices) {
    return MakeError(reason::kArgumentOutOfRange,
                     absl::StrCat("a timeline draws ", kFewestSlices, " to ", kMostSlices,
                                  " events apart, not ", options.max_slices));
  }
  std::optional<analysis::WindowRange> window;
  if (!request.trace().window().empty()) {
    LY_ASSIGN_OR_RETURN(window, analysis::ParseWindowRange(request.trace().window()));
  }
  LY_ASSIGN_OR_RETURN(const ProfileReader::WithTrace loaded,
                      reader.LoadWithTrace(request.trace(), caller));
  *has_trace = loaded.trace.has_value();
  const std::string shown =
      request.trace().typed().empty() ? request.trace().name() : request.trace().typed();
  return analysis::RenderTimelinePage({loaded.profile, loaded.trace ? &*loaded.trace : nullptr,
                                       window, shown, loaded.notes, options});
}

// Sends a page that is in memory. One chunk is under way at a time.
class PageSender : public grpc::ServerWriteReactor<v1::TimelineChunk> {
 public:
  PageSender(CallGate& gate, grpc::CallbackServerContext& context, std::shared_ptr<void> slot)
      : active_(gate.activity()),
        slot_(std::move(slot)),
        guard_(StallGuard::Start(context, gate.stall_timeout())) {}

  // From here on the sender looks after itself.
  void Send(analysis::TimelinePage page, bool has_trace) {
    page_ = std::move(page);
    v1::TimelineInfo& info = *chunk_.mutable_info();
    info.set_has_trace(has_trace);
    info.set_event_count(page_.event_count);
    info.set_slice_count(page_.slice_count);
    info.set_merged_count(page_.merged_count);
    for (const std::string& note : page_.notes) info.add_notes(note);
    Next();
  }

  void OnWriteDone(bool ok) override {
    guard_->Heard();
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (sent_ == page_.html.size()) return Finish(grpc::Status::OK);
    chunk_.clear_info();
    Next();
  }
  void OnDone() override {
    guard_->Stop();
    delete this;
  }

 private:
  void Next() {
    const size_t size = std::min(kChunkBytes, page_.html.size() - sent_);
    chunk_.set_data(page_.html.data() + sent_, size);
    chunk_.set_total_bytes(static_cast<int64_t>(page_.html.size()));
    sent_ += size;
    guard_->Await();
    StartWrite(&chunk_);
  }

  ActiveCall active_;
  const std::shared_ptr<void> slot_;
  const std::shared_ptr<StallGuard> guard_;
  analysis::TimelinePage page_;
  size_t sent_ = 0;
  v1::TimelineChunk chunk_;
};

}  // namespace

grpc::ServerWriteReactor<v1::TimelineChunk>* ProfileService::ExportTimeline(
    Context* context, const v1::ExportTimelineRequest* request) {
  absl::StatusOr<Caller> admitted = deps_.gate.Admit(*context, {Role::kViewer});
  if (!admitted.ok()) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::TimelineChunk>>(admitted.status());
  }
  // The context lives until the sender finishes.
  admitted->is_cancelled = [context] { return context->IsCancelled(); };
  auto* sender = new PageSender(deps_.gate, *context, admitted->slot);
  deps_.readers.SubmitFor(admitted->principal,
                          [this, caller = *admitted, request = *request, sender] {
                            // Whoever asked may have gone while others were served.
                            if (caller.is_cancelled())
                              return sender->Finish(grpc::Status::CANCELLED);
                            bool has_trace = false;
                            absl::StatusOr<analysis::TimelinePage> page =
                                MakePage(deps_.reader, request, caller, &has_trace);
                            if (!page.ok()) return sender->Finish(rpc::ToGrpcStatus(page.status()));
                            sender->Send(*std::move(page), has_trace);
                          });
  return sender;
}

}  // namespace libreyolo::daemon
