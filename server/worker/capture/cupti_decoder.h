// Turns CUPTI's buffers of records into ActivityRecords. Knows the layout of records and the names
// of calls, copies and kernels; nothing of how buffers come. For server/worker/capture alone.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/worker/capture/activity_source.h"
#include "server/worker/capture/cupti_library.h"

namespace libreyolo::worker {

class CuptiDecoder {
 public:
  // `library` must outlive the decoder.
  explicit CuptiDecoder(const CuptiLibrary& library) : library_(library), api_(library.api) {}

  // Reads all records of `buffer`, of which `valid_bytes` are filled. False when the buffer is
  // damaged: what stands behind the damage is lost. One call at a time; a record's name lives as
  // long as the decoder.
  bool Decode(uint8_t* buffer, size_t valid_bytes, RecordSink& sink);

  // Records of kinds that nobody asked for.
  int64_t unknown_count() const { return unknown_count_; }

 private:
  struct CallName {
    std::string_view name;
    bool wanted = false;
  };

  void DecodeRecord(const CUpti_Activity* record, RecordSink& sink);
  void DecodeKernel(const CUpti_Activity* record, RecordSink& sink);
  void DecodeMemcpy(const CUpti_Activity* record, RecordSink& sink);
  void DecodeMemset(const CUpti_Activity* record, RecordSink& sink);
  void DecodeGraph(const CUpti_Activity* record, RecordSink& sink);
  void DecodeCall(const CUpti_Activity* record, RecordSink& sink);
  void DecodeSynchronization(const CUpti_Activity* record, RecordSink& sink);
  void DecodeOverhead(const CUpti_Activity* record, RecordSink& sink);

  std::string_view Keep(std::string name);
  std::string_view KernelName(const char* mangled);
  const CallName& NameOfCall(bool runtime, uint32_t cbid);

  const CuptiLibrary& library_;
  const CuptiTable& api_;
  std::deque<std::string> names_;  // does not move what it holds
  std::unordered_map<std::string_view, std::string_view> kernel_names_;  // mangled -> readable
  std::unordered_map<std::string, std::string_view> fixed_names_;
  std::unordered_map<uint64_t, CallName> calls_;
  // What PushPhase was given, by correlation id: CUPTI puts it before the call's own record.
  std::unordered_map<uint32_t, uint32_t> phase_of_call_;
  int64_t unknown_count_ = 0;
};

// "cudaLaunchKernel_v7000" -> "cudaLaunchKernel", "cudaMemcpyAsync_ptsz_v7000" ->
// "cudaMemcpyAsync"; the driver's "cuMemAlloc_v2" stays.
std::string PlainCallName(std::string_view name);

}  // namespace libreyolo::worker
