#include "server/worker_link/worker_channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "libreyolo/worker/v1/worker.pb.h"

namespace libreyolo::worker_link {
namespace {

namespace pb = ::libreyolo::worker::v1;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

const char* StageName(WorkerStage stage) {
  switch (stage) {
    case WorkerStage::kStarting:
      return "starting";
    case WorkerStage::kWarmingUp:
      return "warming_up";
    case WorkerStage::kMeasuring:
      return "measuring";
  }
  return "";
}

void FillPlan(const WorkerPlan& plan, pb::Plan& out) {
  out.set_job_id(plan.job_id);
  out.set_trial(plan.trial);
  out.set_mode(job::Name(plan.mode));
  out.set_staging_dir(plan.staging_dir);
  out.set_device(plan.device);
  out.set_threads(plan.threads);
  out.set_weights(plan.weights);
  out.set_weights_path(plan.weights_path);
  out.set_weights_digest(plan.weights_digest);
  out.set_size(plan.size);
  out.set_source(plan.source);
  for (const std::string& path : plan.source_paths) out.add_source_paths(path);
  out.set_batch(plan.batch);
  out.set_imgsz(plan.imgsz);
  out.set_warmup(plan.warmup);
  out.set_runs(plan.runs);
  out.set_half(plan.half);
  out.set_amp_dtype(job::Name(plan.amp_dtype));
  out.set_conf(plan.conf);
  out.set_iou(plan.iou);
  out.set_max_det(plan.max_det);
  out.set_trace(plan.trace);
  out.set_workers(plan.workers);
  out.set_amp(plan.amp);
  out.set_on_contention(job::Name(plan.on_contention));
  out.set_datasets_dir(plan.datasets_dir);
  out.set_cache_dir(plan.cache_dir);
  for (const std::string& root : plan.data_roots) out.add_data_roots(root);
}

WorkerPlan ReadPlan(const pb::Plan& in) {
  WorkerPlan plan;
  plan.job_id = in.job_id();
  plan.trial = in.trial();
  plan.mode = in.mode() == "train" ? job::Mode::kTrain : job::Mode::kInfer;
  plan.staging_dir = in.staging_dir();
  plan.device = in.device();
  plan.threads = in.threads();
  plan.weights = in.weights();
  plan.weights_path = in.weights_path();
  plan.weights_digest = in.weights_digest();
  plan.size = in.size();
  plan.source = in.source();
  plan.source_paths.assign(in.source_paths().begin(), in.source_paths().end());
  plan.batch = in.batch();
  plan.imgsz = in.imgsz();
  plan.warmup = in.warmup();
  plan.runs = in.runs();
  plan.half = in.half();
  plan.amp_dtype =
      in.amp_dtype() == "bfloat16" ? job::AmpDtype::kBfloat16 : job::AmpDtype::kFloat16;
  plan.conf = in.conf();
  plan.iou = in.iou();
  plan.max_det = in.max_det();
  plan.trace = in.trace();
  plan.workers = in.workers();
  plan.amp = in.amp();
  for (const auto policy : {job::OnContention::kWait, job::OnContention::kFail}) {
    if (in.on_contention() == job::Name(policy)) plan.on_contention = policy;
  }
  plan.datasets_dir = in.datasets_dir();
  plan.cache_dir = in.cache_dir();
  plan.data_roots.assign(in.data_roots().begin(), in.data_roots().end());
  return plan;
}

void FillFailed(const absl::Status& status, pb::Failed& out) {
  const ErrorDetail detail = GetErrorDetail(status);
  out.set_code(static_cast<int>(status.code()));
  out.set_reason(detail.reason);
  out.set_message(detail.message);
  for (const std::string& hint : detail.hints) out.add_hints(hint);
  for (const auto& [key, value] : detail.metadata) (*out.mutable_metadata())[key] = value;
}

// What a worker says is kept with the job and shown in lists. One that was taken over may say
// anything.
constexpr size_t kMaxMessageBytes = 8 << 10;
constexpr size_t kMaxWordsBytes = 1 << 10;
constexpr size_t kMaxEntries = 20;

std::string Cut(const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // no half sign
  return absl::StrCat(text.substr(0, end), "...");
}

absl::Status ReadFailed(const pb::Failed& in) {
  ErrorDetail detail;
  detail.reason =
      in.reason().empty() ? reason::kWorkerFailed.name : Cut(in.reason(), kMaxWordsBytes);
  detail.message = Cut(in.message(), kMaxMessageBytes);
  for (const std::string& hint : in.hints()) {
    if (detail.hints.size() == kMaxEntries) break;
    detail.hints.push_back(Cut(hint, kMaxWordsBytes));
  }
  for (const auto& [key, value] : in.metadata()) {
    if (detail.metadata.size() == kMaxEntries) break;
    detail.metadata.emplace_back(Cut(key, kMaxWordsBytes), Cut(value, kMaxWordsBytes));
  }
  const bool known =
      in.code() > 0 && in.code() <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return MakeErrorFromDetail(
      known ? static_cast<absl::StatusCode>(in.code()) : absl::StatusCode::kInternal, detail);
}

}  // namespace

std::string EncodePayload(const WorkerMessage& message) {
  pb::FromWorker out;
  std::visit(Overloaded{
                 [&](const Hello& m) {
                   out.mutable_hello()->set_build_id(m.build_id);
                   out.mutable_hello()->set_pid(m.pid);
                 },
                 [&](const StageBegan& m) {
                   out.mutable_stage()->set_name(StageName(m.stage));
                   out.mutable_stage()->set_detail(m.detail);
                 },
                 [&](const Progress& m) {
                   out.mutable_progress()->set_stage(m.stage);
                   out.mutable_progress()->set_done(m.done);
                   out.mutable_progress()->set_total(m.total);
                 },
                 [&](const Heartbeat&) { out.mutable_heartbeat(); },
                 [&](const Finished& m) {
                   out.mutable_finished()->set_measurement_json(m.measurement_json);
                   out.mutable_finished()->set_lost_records(m.lost_records);
                 },
                 [&](const Failed& m) { FillFailed(m.status, *out.mutable_failed()); },
             },
             message);
  return out.SerializeAsString();
}

std::string EncodePayload(const DaemonMessage& message) {
  pb::ToWorker out;
  std::visit(Overloaded{
                 [&](const WorkerPlan& m) { FillPlan(m, *out.mutable_plan()); },
                 [&](const Cancel&) { out.mutable_cancel(); },
             },
             message);
  return out.SerializeAsString();
}

absl::StatusOr<WorkerMessage> DecodeWorkerMessage(absl::string_view payload) {
  pb::FromWorker in;
  if (!in.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::InvalidArgumentError("the worker sent bytes that are no message");
  }
  switch (in.message_case()) {
    case pb::FromWorker::kHello:
      return Hello{Cut(in.hello().build_id(), kMaxWordsBytes), in.hello().pid()};
    case pb::FromWorker::kStage: {
      for (WorkerStage stage :
           {WorkerStage::kStarting, WorkerStage::kWarmingUp, WorkerStage::kMeasuring}) {
        if (in.stage().name() == StageName(stage))
          return StageBegan{stage, Cut(in.stage().detail(), kMaxWordsBytes)};
      }
      return absl::InvalidArgumentError(
          absl::StrCat("unknown worker stage \"", Cut(in.stage().name(), kMaxWordsBytes), "\""));
    }
    case pb::FromWorker::kProgress:
      return Progress{Cut(in.progress().stage(), kMaxWordsBytes), in.progress().done(),
                      in.progress().total()};
    case pb::FromWorker::kHeartbeat:
      return Heartbeat{};
    case pb::FromWorker::kFinished:
      return Finished{in.finished().measurement_json(), in.finished().lost_records()};
    case pb::FromWorker::kFailed:
      return Failed{ReadFailed(in.failed())};
    case pb::FromWorker::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the worker sent an empty message");
}

absl::StatusOr<DaemonMessage> DecodeDaemonMessage(absl::string_view payload) {
  pb::ToWorker in;
  if (!in.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::InvalidArgumentError("the daemon sent bytes that are no message");
  }
  switch (in.message_case()) {
    case pb::ToWorker::kPlan:
      return ReadPlan(in.plan());
    case pb::ToWorker::kCancel:
      return Cancel{};
    case pb::ToWorker::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the daemon sent an empty message");
}

absl::Status WorkerChannel::Send(const WorkerMessage& message) {
  const std::string frame = EncodeFrame(EncodePayload(message));
  const std::lock_guard<std::mutex> lock(send_mu_);
  absl::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return absl::UnavailableError(
          absl::StrCat("the link to the daemon broke: ", strerror(errno)));
    }
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<DaemonMessage> WorkerChannel::Receive() {
  for (;;) {
    LY_ASSIGN_OR_RETURN(std::optional<std::string> payload, decoder_.Next());
    if (payload.has_value()) return DecodeDaemonMessage(*payload);
    char buffer[4096];
    const ssize_t got = recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(
          absl::StrCat("the link to the daemon broke: ", strerror(errno)));
    }
    if (got == 0) return absl::UnavailableError("the daemon closed the link");
    decoder_.Feed(absl::string_view(buffer, static_cast<size_t>(got)));
  }
}

}  // namespace libreyolo::worker_link
