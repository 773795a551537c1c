#include "tests/fakes/cupti/fake_cupti.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

size_t SizeOf(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    default:
      return 0;
  }
}

int KindOf(const void* record) {
  int kind = 0;
  std::memcpy(&kind, record, sizeof kind);
  return kind;
}

class Fake : public libreyolo::FakeCupti {
 public:
  void Reset() override {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    kinds_.clear();
    queue_.clear();
    stacks_.clear();
    failures_.clear();
    kind_failures_.clear();
    calls_.clear();
    dropped_ = 0;
    next_correlation_ = 1;
    reverse_ = subscribed_ = false;
    request_ = nullptr;
    complete_ = nullptr;
    clock_ = nullptr;
    held_ = nullptr;
    version_ = CUPTI_API_VERSION;
  }

  void PutBytes(const void* record, size_t size) override {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    const int kind = KindOf(record);
    const bool known = SizeOf(kind) != 0;
    if (known && kind != CUPTI_ACTIVITY_KIND_DEVICE && kinds_.count(kind) == 0) return;
    const auto* bytes = static_cast<const uint8_t*>(record);
    std::vector<uint8_t> copy(bytes, bytes + size);
    if (reverse_) {
      queue_.push_front(std::move(copy));
    } else {
      queue_.push_back(std::move(copy));
    }
  }

  uint32_t Call(CUpti_ActivityKind kind, uint32_t cbid, uint64_t start, uint64_t end,
                uint32_t thread) override {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    const uint32_t id = next_correlation_++;
    if (next_correlation_ == 0) next_correlation_ = 1;
    for (const auto& [external_kind, ids] : stacks_) {
      if (ids.empty()) continue;
      CUpti_ActivityExternalCorrelation e{};
      e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      e.externalKind = external_kind;
      e.externalId = ids.back();
      e.correlationId = id;
      Put(e);
    }
    CUpti_ActivityAPI a{};
    a.kind = kind;
    a.cbid = cbid;
    a.start = start;
    a.end = end;
    a.threadId = thread;
    a.correlationId = id;
    Put(a);
    return id;
  }

  void SetNextCorrelation(uint32_t id) override { next_correlation_ = id; }
  void ReverseOrder() override { reverse_ = true; }
  void Drop(size_t count) override {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    dropped_ += count;
  }

  void Deliver() override {
    std::deque<std::vector<uint8_t>> records;
    {
      const std::lock_guard<std::recursive_mutex> lock(mu_);
      records.swap(queue_);
    }
    if (request_ == nullptr || records.empty()) return;
    std::thread([this, &records] { HandOver(records); }).join();
  }

  void HoldBuffer() override {
    size_t max_records = 0;
    request_(&held_, &held_size_, &max_records);
  }
  void HandHeldBufferBack() override {
    if (held_ != nullptr) complete_(nullptr, 0, std::exchange(held_, nullptr), held_size_, 0);
  }

  void Fail(const std::string& function, CUptiResult result) override {
    failures_[function] = result;
  }
  void FailKind(CUpti_ActivityKind kind, CUptiResult result) override {
    kind_failures_[kind] = result;
  }
  void SetVersion(uint32_t version) override { version_ = version; }
  uint64_t Now() override { return clock_ == nullptr ? 0 : clock_(); }
  std::vector<std::string> Calls() override {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    return calls_;
  }
  std::vector<int> EnabledKinds() override { return {kinds_.begin(), kinds_.end()}; }

  // What the exported functions do.
  CUptiResult Enter(const std::string& function) {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    calls_.push_back(function);
    const auto found = failures_.find(function);
    return found == failures_.end() ? CUPTI_SUCCESS : found->second;
  }
  CUptiResult Subscribe() {
    if (const CUptiResult failed = Enter("cuptiSubscribe"); failed != CUPTI_SUCCESS) return failed;
    if (subscribed_) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    subscribed_ = true;
    return CUPTI_SUCCESS;
  }
  CUptiResult Unsubscribe() {
    subscribed_ = false;
    return Enter("cuptiUnsubscribe");
  }
  CUptiResult Enable(CUpti_ActivityKind kind) {
    if (const CUptiResult failed = Enter("cuptiActivityEnable"); failed != CUPTI_SUCCESS)
      return failed;
    const auto found = kind_failures_.find(kind);
    if (found != kind_failures_.end()) return found->second;
    kinds_.insert(kind);
    return CUPTI_SUCCESS;
  }
  CUptiResult Disable(CUpti_ActivityKind kind) {
    kinds_.erase(kind);
    return Enter("cuptiActivityDisable");
  }
  CUptiResult Flush() {
    const CUptiResult result = Enter("cuptiActivityFlushAll");
    if (result == CUPTI_SUCCESS) Deliver();
    return result;
  }
  CUptiResult TakeDropped(size_t* count) {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    *count = std::exchange(dropped_, 0);
    return Enter("cuptiActivityGetNumDroppedRecords");
  }
  CUptiResult Push(CUpti_ExternalCorrelationKind kind, uint64_t id) {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    stacks_[kind].push_back(id);
    return CUPTI_SUCCESS;
  }
  CUptiResult Pop(CUpti_ExternalCorrelationKind kind, uint64_t* id) {
    const std::lock_guard<std::recursive_mutex> lock(mu_);
    std::vector<uint64_t>& ids = stacks_[kind];
    if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
    *id = ids.back();
    ids.pop_back();
    return CUPTI_SUCCESS;
  }
  CUptiResult Next(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
    uint8_t* at = buffer;
    if (*record != nullptr) at = reinterpret_cast<uint8_t*>(*record) + SizeOf(KindOf(*record));
    if (at >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    if (SizeOf(KindOf(at)) == 0) return CUPTI_ERROR_INVALID_KIND;
    *record = reinterpret_cast<CUpti_Activity*>(at);
    return CUPTI_SUCCESS;
  }

  void set_clock(CUpti_TimestampCallbackFunc clock) { clock_ = clock; }
  void set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                     CUpti_BuffersCallbackCompleteFunc complete) {
    request_ = request;
    complete_ = complete;
  }
  uint32_t version() const { return version_; }

 private:
  void HandOver(const std::deque<std::vector<uint8_t>>& records) {
    size_t next = 0;
    while (next < records.size()) {
      uint8_t* buffer = nullptr;
      size_t size = 0, max_records = 0, used = 0, count = 0;
      request_(&buffer, &size, &max_records);
      if (buffer == nullptr) return Drop(records.size() - next);
      while (next < records.size() && used + records[next].size() <= size &&
             (max_records == 0 || count < max_records)) {
        std::memcpy(buffer + used, records[next].data(), records[next].size());
        used += records[next++].size();
        ++count;
      }
      complete_(nullptr, 0, buffer, size, used);
      if (count == 0) return Drop(records.size() - next);
    }
  }

  std::recursive_mutex mu_;
  std::set<int> kinds_;
  std::deque<std::vector<uint8_t>> queue_;
  std::map<CUpti_ExternalCorrelationKind, std::vector<uint64_t>> stacks_;
  std::map<std::string, CUptiResult> failures_;
  std::map<int, CUptiResult> kind_failures_;
  std::vector<std::string> calls_;
  size_t dropped_ = 0;
  uint32_t next_correlation_ = 1;
  uint32_t version_ = CUPTI_API_VERSION;
  bool reverse_ = false;
  bool subscribed_ = false;
  uint8_t* held_ = nullptr;
  size_t held_size_ = 0;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  CUpti_TimestampCallbackFunc clock_ = nullptr;
};

Fake& Instance() {
  static auto& fake = *new Fake;
  return fake;
}

const char* CallName(bool runtime, uint32_t cbid) {
  struct Row {
    bool runtime;
    uint32_t cbid;
    const char* name;
  };
  static constexpr Row kRows[] = {
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, "cudaMalloc_v3020"},
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, "cudaFree_v3020"},
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, "cudaGetDevice_v3020"},
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, "cudaMemcpyAsync_v3020"},
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, "cudaMemsetAsync_v3020"},
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel_v7000"},
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, "cudaGraphLaunch_v10000"},
      {true, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020, "cudaDeviceSynchronize_v3020"},
      {false, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"},
      {false, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, "cuCtxGetCurrent"},
  };
  for (const Row& row : kRows) {
    if (row.runtime == runtime && row.cbid == cbid) return row.name;
  }
  return nullptr;
}

}  // namespace

FAKE_EXPORT libreyolo::FakeCupti* fakeCuptiInstance() { return &Instance(); }

FAKE_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = Instance().version();
  return Instance().Enter("cuptiGetVersion");
}
FAKE_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
      break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    default:
      *text = "CUPTI_ERROR_UNKNOWN";
  }
  return CUPTI_SUCCESS;
}
FAKE_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc,
                                       void*) {
  const CUptiResult result = Instance().Subscribe();
  if (result == CUPTI_SUCCESS) *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&Instance());
  return result;
}
FAKE_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  return Instance().Unsubscribe();
}
FAKE_EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType) {
  return Instance().Enter("cuptiSetThreadIdType");
}
FAKE_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                             const char** name) {
  *name = CallName(domain == CUPTI_CB_DOMAIN_RUNTIME_API, cbid);
  return *name == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}
FAKE_EXPORT CUptiResult
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc callback) {
  Instance().set_clock(callback);
  return Instance().Enter("cuptiActivityRegisterTimestampCallback");
}
FAKE_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                       CUpti_BuffersCallbackCompleteFunc complete) {
  Instance().set_callbacks(request, complete);
  return Instance().Enter("cuptiActivityRegisterCallbacks");
}
FAKE_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return Instance().Enable(kind);
}
FAKE_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return Instance().Disable(kind);
}
FAKE_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) { return Instance().Flush(); }
FAKE_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid,
                                                   CUpti_Activity** record) {
  return Instance().Next(buffer, valid, record);
}
FAKE_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  return Instance().TakeDropped(dropped);
}
FAKE_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                               uint64_t id) {
  return Instance().Push(kind, id);
}
FAKE_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                              uint64_t* id) {
  return Instance().Pop(kind, id);
}
