#include "server/worker/capture/cupti_decoder.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::worker {
namespace {

// A library of CUDA 12 hands out the older records. What is read must lie where the newer have it.
#define LY_SAME_PLACE(older, newer, field) \
  static_assert(offsetof(older, field) == offsetof(newer, field))
LY_SAME_PLACE(CUpti_ActivityKernel9, CUpti_ActivityKernel10, registersPerThread);
LY_SAME_PLACE(CUpti_ActivityKernel9, CUpti_ActivityKernel10, start);
LY_SAME_PLACE(CUpti_ActivityKernel9, CUpti_ActivityKernel10, streamId);
LY_SAME_PLACE(CUpti_ActivityKernel9, CUpti_ActivityKernel10, blockZ);
LY_SAME_PLACE(CUpti_ActivityKernel9, CUpti_ActivityKernel10, correlationId);
LY_SAME_PLACE(CUpti_ActivityKernel9, CUpti_ActivityKernel10, name);
LY_SAME_PLACE(CUpti_ActivityKernel9, CUpti_ActivityKernel10, graphNodeId);
LY_SAME_PLACE(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, dstKind);
LY_SAME_PLACE(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, start);
LY_SAME_PLACE(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, correlationId);
LY_SAME_PLACE(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, graphNodeId);
LY_SAME_PLACE(CUpti_ActivitySynchronization, CUpti_ActivitySynchronization2, streamId);
LY_SAME_PLACE(CUpti_ActivityOverhead2, CUpti_ActivityOverhead3, end);
#undef LY_SAME_PLACE

template <typename T>
const T& As(const CUpti_Activity* record) {
  return *reinterpret_cast<const T*>(record);
}

const char* DirectionOf(uint8_t copy_kind) {
  static constexpr const char* kWords[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                           "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return copy_kind < std::size(kWords) ? kWords[copy_kind] : kWords[0];
}

const char* MemoryOf(uint16_t memory_kind) {
  static constexpr const char* kWords[] = {"Unknown",       "Pageable",      "Pinned",
                                           "Device",        "Array",         "Managed",
                                           "Device Static", "Managed Static"};
  return memory_kind < std::size(kWords) ? kWords[memory_kind] : kWords[0];
}

const char* WaitName(CUpti_ActivitySynchronizationType type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return "Event Sync";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      return "Stream Wait Event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return "Stream Sync";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return "Context Sync";
    default:
      return "Unknown Sync";
  }
}

const char* OverheadName(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
      return "Driver Compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
      return "Buffer Flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
      return "Instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
      return "Resource";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
      return "Runtime Triggered Module Loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
      return "Lazy Function Loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      return "Command Buffer Full";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
      return "Activity Buffer Request";
    case CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT:
      return "UVM Activity Init";
    default:
      return "Unrecognized";
  }
}

// Calls that a framework makes by the thousand and that start, allocate and wait for nothing.
bool IsNoise(std::string_view name) {
  static constexpr std::string_view kNoise[] = {"cudaGetDevice",
                                                "cudaSetDevice",
                                                "cudaGetLastError",
                                                "cudaPeekAtLastError",
                                                "cudaEventCreate",
                                                "cudaEventCreateWithFlags",
                                                "cudaEventDestroy",
                                                "cudaDeviceGetAttribute",
                                                "cudaGetDeviceCount",
                                                "cudaStreamIsCapturing",
                                                "cudaStreamGetCaptureInfo",
                                                "cudaEventQuery"};
  for (const std::string_view noise : kNoise) {
    if (name == noise) return true;
  }
  return false;
}

// Of the driver's several hundred calls: those that give the GPU work, memory, or wait for it.
bool IsWantedDriverCall(std::string_view name) {
  for (const char* prefix : {"cuLaunch", "cuGraphLaunch", "cuMem"}) {
    if (name.substr(0, std::string_view(prefix).size()) == prefix) return true;
  }
  return name.find("Synchronize") != std::string_view::npos;
}

}  // namespace

std::string PlainCallName(std::string_view name) {
  const size_t version = name.rfind("_v");
  // The runtime's are the CUDA version that brought the call: four digits or more.
  if (version != std::string_view::npos && name.size() - version >= 6 &&
      name.find_first_not_of("0123456789", version + 2) == std::string_view::npos) {
    name = name.substr(0, version);
  }
  for (const std::string_view suffix : {std::string_view("_ptsz"), std::string_view("_ptds")}) {
    if (name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix) {
      name.remove_suffix(suffix.size());
    }
  }
  return std::string(name);
}

std::string_view CuptiDecoder::Keep(std::string name) {
  const auto found = fixed_names_.find(name);
  if (found != fixed_names_.end()) return found->second;
  const std::string_view kept = names_.emplace_back(name);
  return fixed_names_.emplace(std::move(name), kept).first->second;
}

std::string_view CuptiDecoder::KernelName(const char* mangled) {
  if (mangled == nullptr) return "unnamed kernel";
  // CUPTI owns the text and may free it with the module, so a pointer proves nothing.
  const auto found = kernel_names_.find(mangled);
  if (found != kernel_names_.end()) return found->second;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  const std::string_view key = names_.emplace_back(mangled);
  const std::string_view name = names_.emplace_back(status == 0 ? readable.get() : mangled);
  kernel_names_.emplace(key, name);
  return name;
}

const CuptiDecoder::CallName& CuptiDecoder::NameOfCall(bool runtime, uint32_t cbid) {
  const uint64_t key = (uint64_t{runtime} << 32) | cbid;
  const auto found = calls_.find(key);
  if (found != calls_.end()) return found->second;
  const char* text = nullptr;
  const auto domain = runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  CallName call;
  if (api_.cuptiGetCallbackName(domain, cbid, &text) == CUPTI_SUCCESS && text != nullptr) {
    call.name = names_.emplace_back(PlainCallName(text));
    call.wanted = runtime ? !IsNoise(call.name) : IsWantedDriverCall(call.name);
  } else {
    call.name = names_.emplace_back(absl::StrCat(runtime ? "runtime" : "driver", " call ", cbid));
    call.wanted = true;
  }
  return calls_.emplace(key, call).first->second;
}

void CuptiDecoder::DecodeKernel(const CUpti_Activity* record, RecordSink& sink) {
  const auto& k = As<CUpti_ActivityKernel10>(record);
  ActivityRecord out;
  out.kind = ActivityKind::kKernel;
  out.name = KernelName(k.name);
  out.start_ns = static_cast<int64_t>(k.start);
  out.end_ns = static_cast<int64_t>(k.end);
  out.correlation_id = k.correlationId;
  out.device = static_cast<int32_t>(k.deviceId);
  out.context = static_cast<int32_t>(k.contextId);
  out.stream = static_cast<int32_t>(k.streamId);
  out.grid = {k.gridX, k.gridY, k.gridZ};
  out.block = {k.blockX, k.blockY, k.blockZ};
  out.registers = k.registersPerThread;
  out.shared_bytes = k.staticSharedMemory + k.dynamicSharedMemory;
  out.graph_node = k.graphNodeId;
  sink.OnActivity(out);
}

void CuptiDecoder::DecodeMemcpy(const CUpti_Activity* record, RecordSink& sink) {
  const auto& c = As<CUpti_ActivityMemcpy6>(record);
  ActivityRecord out;
  out.kind = ActivityKind::kMemcpy;
  out.name = Keep(absl::StrCat("Memcpy ", DirectionOf(c.copyKind), " (", MemoryOf(c.srcKind),
                               " -> ", MemoryOf(c.dstKind), ")"));
  out.start_ns = static_cast<int64_t>(c.start);
  out.end_ns = static_cast<int64_t>(c.end);
  out.correlation_id = c.correlationId;
  out.device = static_cast<int32_t>(c.deviceId);
  out.context = static_cast<int32_t>(c.contextId);
  out.stream = static_cast<int32_t>(c.streamId);
  out.bytes = static_cast<int64_t>(c.bytes);
  out.graph_node = c.graphNodeId;
  sink.OnActivity(out);
}

void CuptiDecoder::DecodeMemset(const CUpti_Activity* record, RecordSink& sink) {
  const auto& s = As<CUpti_ActivityMemset4>(record);
  ActivityRecord out;
  out.kind = ActivityKind::kMemset;
  out.name = Keep(absl::StrCat("Memset (", MemoryOf(s.memoryKind), ")"));
  out.start_ns = static_cast<int64_t>(s.start);
  out.end_ns = static_cast<int64_t>(s.end);
  out.correlation_id = s.correlationId;
  out.device = static_cast<int32_t>(s.deviceId);
  out.context = static_cast<int32_t>(s.contextId);
  out.stream = static_cast<int32_t>(s.streamId);
  out.bytes = static_cast<int64_t>(s.bytes);
  out.graph_node = s.graphNodeId;
  sink.OnActivity(out);
}

// A whole graph as one piece of work, where the source asked for graphs and not for their nodes.
void CuptiDecoder::DecodeGraph(const CUpti_Activity* record, RecordSink& sink) {
  const auto& g = As<CUpti_ActivityGraphTrace2>(record);
  ActivityRecord out;
  out.kind = ActivityKind::kKernel;
  out.name = Keep(absl::StrCat("CUDA graph ", g.graphId));
  out.start_ns = static_cast<int64_t>(g.start);
  out.end_ns = static_cast<int64_t>(g.end);
  out.correlation_id = g.correlationId;
  out.device = static_cast<int32_t>(g.deviceId);
  out.context = static_cast<int32_t>(g.contextId);
  out.stream = static_cast<int32_t>(g.streamId);
  sink.OnActivity(out);
}

void CuptiDecoder::DecodeCall(const CUpti_Activity* record, RecordSink& sink) {
  const auto& a = As<CUpti_ActivityAPI>(record);
  const bool runtime = record->kind == CUPTI_ACTIVITY_KIND_RUNTIME;
  uint32_t phase = 0;
  if (const auto found = phase_of_call_.find(a.correlationId); found != phase_of_call_.end()) {
    phase = found->second;
    phase_of_call_.erase(found);
  }
  const CallName& call = NameOfCall(runtime, a.cbid);
  if (!call.wanted) return;
  ActivityRecord out;
  out.kind = runtime ? ActivityKind::kRuntimeCall : ActivityKind::kDriverCall;
  out.name = call.name;
  out.start_ns = static_cast<int64_t>(a.start);
  out.end_ns = static_cast<int64_t>(a.end);
  out.correlation_id = a.correlationId;
  out.phase_id = phase;
  out.os_thread_id = a.threadId;
  sink.OnActivity(out);
}

void CuptiDecoder::DecodeSynchronization(const CUpti_Activity* record, RecordSink& sink) {
  const auto& s = As<CUpti_ActivitySynchronization2>(record);
  ActivityRecord out;
  out.kind = ActivityKind::kSynchronization;
  out.name = WaitName(s.type);
  out.start_ns = static_cast<int64_t>(s.start);
  out.end_ns = static_cast<int64_t>(s.end);
  out.correlation_id = s.correlationId;
  out.context = static_cast<int32_t>(s.contextId);
  // A wait for a context or an event names no stream.
  out.stream =
      s.streamId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? -1 : static_cast<int32_t>(s.streamId);
  sink.OnActivity(out);
}

void CuptiDecoder::DecodeOverhead(const CUpti_Activity* record, RecordSink& sink) {
  const auto& o = As<CUpti_ActivityOverhead3>(record);
  ActivityRecord out;
  out.kind = ActivityKind::kOverhead;
  out.name = OverheadName(o.overheadKind);
  out.start_ns = static_cast<int64_t>(o.start);
  out.end_ns = static_cast<int64_t>(o.end);
  sink.OnActivity(out);
  // Details that CUPTI allocated for us; records before CUDA 13 end without the pointer.
  if (library_.version >= 130000) std::free(o.overheadData);
}

void CuptiDecoder::DecodeRecord(const CUpti_Activity* record, RecordSink& sink) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return DecodeKernel(record, sink);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return DecodeMemcpy(record, sink);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return DecodeMemset(record, sink);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return DecodeGraph(record, sink);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return DecodeCall(record, sink);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return DecodeSynchronization(record, sink);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return DecodeOverhead(record, sink);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& e = As<CUpti_ActivityExternalCorrelation>(record);
      if (e.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1) {
        phase_of_call_[e.correlationId] = static_cast<uint32_t>(e.externalId);
      }
      return;
    }
    default:
      ++unknown_count_;
  }
}

bool CuptiDecoder::Decode(uint8_t* buffer, size_t valid_bytes, RecordSink& sink) {
  CUpti_Activity* record = nullptr;
  while (valid_bytes > 0) {
    const CUptiResult result = api_.cuptiActivityGetNextRecord(buffer, valid_bytes, &record);
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) return true;  // the end, in CUPTI's words
    if (result != CUPTI_SUCCESS || record == nullptr) return false;
    DecodeRecord(record, sink);
  }
  return true;
}

}  // namespace libreyolo::worker
