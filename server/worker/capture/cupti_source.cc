#include "server/worker/capture/cupti_source.h"

#include <cupti.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "server/worker/capture/capture_clock.h"
#include "server/worker/capture/cupti_decoder.h"
#include "server/worker/capture/cupti_library.h"
#include "server/worker/capture/null_source.h"

namespace libreyolo::worker {
namespace {

constexpr size_t kAlignment = 8;  // of CUPTI's records

struct Kind {
  CUpti_ActivityKind kind;
  const char* name;
  bool required;
};

std::vector<Kind> KindsFor(const CuptiOptions& options) {
  std::vector<Kind> kinds = {
      {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "external correlation", true},
      {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead", false},
      {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronization", false},
      {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls", true},
      {CUPTI_ACTIVITY_KIND_DRIVER, "driver calls", true},
      {CUPTI_ACTIVITY_KIND_MEMCPY, "copies", true},
      {CUPTI_ACTIVITY_KIND_MEMSET, "fills", true},
  };
  if (options.whole_graphs) {
    kinds.push_back({CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "whole graphs", true});
  }
  // Last: from here on launches cost more. Not KIND_KERNEL, which makes kernels run one by one.
  kinds.push_back({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels", true});
  return kinds;
}

// CUPTI stamps host calls with this and converts the GPU's times to it when it hands buffers over,
// so it must stay valid until the process ends.
uint64_t TimestampNow() { return ReadClockGettime(); }

// Nobody subscribed to a callback: the subscription only claims CUPTI.
void IgnoreCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

class CuptiSource : public ActivitySource {
 public:
  CuptiSource(CuptiLibrary library, const CuptiOptions& options)
      : library_(std::move(library)), options_(options), decoder_(library_) {}
  ~CuptiSource() override;
  CuptiSource(const CuptiSource&) = delete;
  CuptiSource& operator=(const CuptiSource&) = delete;

  absl::Status Start(RecordSink& sink) override;
  absl::StatusOr<CaptureLoss> Stop() override;
  void PushPhase(uint32_t id) override;
  void PopPhase() override;

 private:
  absl::Status Configure();
  absl::Status EnableKinds();
  void DisableKinds();
  void Release();

  uint8_t* NewBuffer();
  uint8_t* TakeBuffer();
  void ReadBuffer(uint8_t* buffer, size_t valid_bytes);

  static void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* max_records);
  static void CUPTIAPI OnComplete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                                  size_t valid_bytes);

  const CuptiLibrary library_;
  const CuptiOptions options_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<CUpti_ActivityKind> enabled_;
  std::vector<std::string> missing_kinds_;
  bool running_ = false;

  // Held while a buffer is taken or read, and not across a call that may hand buffers over:
  // CUPTI calls OnComplete from inside FlushAll. Reading a buffer here, on CUPTI's thread, is what
  // makes kernel names safe: they are CUPTI's and may go with their module.
  std::mutex mu_;
  std::vector<uint8_t*> free_buffers_;
  int buffer_count_ = 0;
  RecordSink* sink_ = nullptr;
  CuptiDecoder decoder_;
  int64_t refused_buffers_ = 0;
  int64_t damaged_buffers_ = 0;
};

// CUPTI's callbacks carry no user data.
std::atomic<CuptiSource*> active_source{nullptr};

CuptiSource::~CuptiSource() {
  if (running_) Stop().IgnoreError();
  for (uint8_t* buffer : free_buffers_) std::free(buffer);
}

absl::Status CuptiSource::Start(RecordSink& sink) {
  LY_CHECK(!running_) << "Start called twice";
  CuptiSource* none = nullptr;
  if (!active_source.compare_exchange_strong(none, this)) {
    return MakeError(reason::kCaptureBusy, "another capture runs in this process");
  }
  {
    const std::lock_guard<std::mutex> lock(mu_);
    sink_ = &sink;
    refused_buffers_ = damaged_buffers_ = 0;
    while (buffer_count_ < options_.ready_buffers) {
      uint8_t* const buffer = NewBuffer();
      if (buffer == nullptr) break;
      std::memset(buffer, 0, static_cast<size_t>(options_.buffer_bytes));
      free_buffers_.push_back(buffer);
    }
  }
  absl::Status started = Configure();
  if (started.ok()) started = EnableKinds();
  if (!started.ok()) {
    DisableKinds();
    Release();
    return started;
  }
  // What was lost before the window is nobody's business.
  size_t dropped = 0;
  library_.api.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  running_ = true;
  LogInfo("capture began", {{"cupti", library_.path}, {"version", library_.version}});
  return absl::OkStatus();
}

absl::Status CuptiSource::Configure() {
  const CuptiTable& api = library_.api;
  const auto call = [&](const char* what, CUptiResult result) {
    return result == CUPTI_SUCCESS ? absl::OkStatus() : CuptiFailure(api, what, result);
  };
  // First: it alone tells of another profiler in this process.
  LY_RETURN_IF_ERROR(
      call("cuptiSubscribe", api.cuptiSubscribe(&subscriber_, &IgnoreCallback, nullptr)));
  // Before any kind is enabled, or some records keep CUPTI's own clock.
  LY_RETURN_IF_ERROR(call("cuptiActivityRegisterTimestampCallback",
                          api.cuptiActivityRegisterTimestampCallback(&TimestampNow)));
  LY_RETURN_IF_ERROR(
      call("cuptiSetThreadIdType", api.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)));
  return call("cuptiActivityRegisterCallbacks",
              api.cuptiActivityRegisterCallbacks(&OnRequest, &OnComplete));
}

absl::Status CuptiSource::EnableKinds() {
  missing_kinds_.clear();
  for (const Kind& kind : KindsFor(options_)) {
    const CUptiResult result = library_.api.cuptiActivityEnable(kind.kind);
    if (result == CUPTI_SUCCESS) {
      enabled_.push_back(kind.kind);
      continue;
    }
    const absl::Status failure = CuptiFailure(
        library_.api, absl::StrCat("cuptiActivityEnable(", kind.name, ")").c_str(), result);
    // Only what this driver or device does not know may be missing; a right or a library that is
    // missing will be so for kernels too.
    const bool unknown = result == CUPTI_ERROR_NOT_SUPPORTED ||
                         result == CUPTI_ERROR_INVALID_KIND || result == CUPTI_ERROR_NOT_COMPATIBLE;
    if (kind.required || !unknown) return failure;
    LogWarning("capture lacks records", {{"kind", kind.name}, {"why", failure.message()}});
    missing_kinds_.emplace_back(kind.name);
  }
  return absl::OkStatus();
}

void CuptiSource::DisableKinds() {
  while (!enabled_.empty()) {
    library_.api.cuptiActivityDisable(enabled_.back());
    enabled_.pop_back();
  }
}

void CuptiSource::Release() {
  if (subscriber_ != nullptr) library_.api.cuptiUnsubscribe(subscriber_);
  subscriber_ = nullptr;
  running_ = false;
  const std::lock_guard<std::mutex> lock(mu_);
  sink_ = nullptr;
  active_source.store(nullptr);
}

absl::StatusOr<CaptureLoss> CuptiSource::Stop() {
  LY_CHECK(running_) << "Stop without Start";
  // Forced: also what CUPTI believes to be unfinished. The device is idle by contract, so nothing
  // is, and without it buffers that no kernel filled would stay out.
  const CUptiResult flushed = library_.api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  DisableKinds();
  size_t dropped = 0;
  const CUptiResult counted = library_.api.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  CaptureLoss loss;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    loss.record_count = static_cast<int64_t>(dropped) + damaged_buffers_;
    // CUPTI counts the records that a refused buffer cost; if it did not, the refusal still shows.
    if (dropped == 0) loss.record_count += refused_buffers_;
  }
  loss.missing_kinds = missing_kinds_;
  Release();
  if (flushed != CUPTI_SUCCESS) return CuptiFailure(library_.api, "cuptiActivityFlushAll", flushed);
  if (counted != CUPTI_SUCCESS) {
    return CuptiFailure(library_.api, "cuptiActivityGetNumDroppedRecords", counted);
  }
  return loss;
}

void CuptiSource::PushPhase(uint32_t id) {
  if (!running_) return;
  library_.api.cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, id);
}

void CuptiSource::PopPhase() {
  if (!running_) return;
  uint64_t id = 0;
  library_.api.cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, &id);
}

// Null when there may be no more, or no memory is left. Under mu_.
uint8_t* CuptiSource::NewBuffer() {
  if (buffer_count_ >= options_.max_buffers) return nullptr;
  auto* const buffer = static_cast<uint8_t*>(
      std::aligned_alloc(kAlignment, static_cast<size_t>(options_.buffer_bytes)));
  if (buffer != nullptr) ++buffer_count_;
  return buffer;
}

// Likewise.
uint8_t* CuptiSource::TakeBuffer() {
  if (free_buffers_.empty()) return NewBuffer();
  uint8_t* const buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

void CuptiSource::ReadBuffer(uint8_t* buffer, size_t valid_bytes) {
  const std::lock_guard<std::mutex> lock(mu_);
  if (sink_ != nullptr && !decoder_.Decode(buffer, valid_bytes, *sink_)) ++damaged_buffers_;
  free_buffers_.push_back(buffer);
}

void CUPTIAPI CuptiSource::OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = nullptr;
  *size = 0;
  *max_records = 0;  // as many as fit
  CuptiSource* const source = active_source.load();
  if (source == nullptr) return;
  const std::lock_guard<std::mutex> lock(source->mu_);
  *buffer = source->TakeBuffer();
  if (*buffer == nullptr) {
    ++source->refused_buffers_;  // CUPTI drops the records and counts them
    return;
  }
  *size = static_cast<size_t>(source->options_.buffer_bytes);
}

void CUPTIAPI CuptiSource::OnComplete(CUcontext, uint32_t, uint8_t* buffer, size_t size,
                                      size_t valid_bytes) {
  CuptiSource* const source = active_source.load();
  if (source == nullptr || size != static_cast<size_t>(source->options_.buffer_bytes)) {
    std::free(buffer);  // handed back after its capture: nobody waits for it
    return;
  }
  source->ReadBuffer(buffer, valid_bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ActivitySource>> MakeCuptiSource(const CuptiOptions& options) {
  LY_ASSIGN_OR_RETURN(CuptiLibrary library, FindCupti());
  return MakeCuptiSource(std::move(library), options);
}

absl::StatusOr<std::string> DescribeCapture() {
  class NoSink : public RecordSink {
    void OnActivity(ActivityRecord) override {}
  };
  LY_ASSIGN_OR_RETURN(CuptiLibrary library, FindCupti());
  const std::string text = absl::StrCat("CUPTI ", library.version, " at ", library.path);
  const std::unique_ptr<ActivitySource> source = MakeCuptiSource(std::move(library));
  NoSink sink;
  LY_RETURN_IF_ERROR(source->Start(sink));
  LY_RETURN_IF_ERROR(source->Stop().status());
  return text;
}

absl::StatusOr<std::unique_ptr<ActivitySource>> MakeActivitySource(const std::string& device,
                                                                   bool trace) {
  if (device == "cpu" || !trace) return std::make_unique<NullSource>();
  return MakeCuptiSource();
}

std::unique_ptr<ActivitySource> MakeCuptiSource(CuptiLibrary library, const CuptiOptions& options) {
  return std::make_unique<CuptiSource>(std::move(library), options);
}

}  // namespace libreyolo::worker
