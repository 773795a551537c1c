// A library with CUPTI's functions that replays what a test puts in, through the callbacks that
// the real one would call: from another thread, in buffers that it asked for, honouring the kinds
// that are enabled, the clock callback and the stacks of external ids. Loaded by its path
// (LIBREYOLO_FAKE_CUPTI), never linked.
//
//   FakeCupti& fake = LoadFakeCupti();
//   fake.Reset();
//   const uint32_t launch = fake.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kLaunchKernel, 10, 20, tid);
//   fake.Put(kernel);       // handed over at the next flush
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace libreyolo {

class FakeCupti {
 public:
  virtual ~FakeCupti() = default;
  // As freshly loaded.
  virtual void Reset() = 0;

  // A record of one of CUPTI's structs; ignored when its kind is not enabled, as CUPTI would.
  virtual void PutBytes(const void* record, size_t size) = 0;
  template <typename Record>
  void Put(const Record& record) {
    PutBytes(&record, sizeof record);
  }
  // A call on `thread`: the external ids that this thread pushed, then the call's record. Returns
  // its correlation id.
  virtual uint32_t Call(CUpti_ActivityKind kind, uint32_t cbid, uint64_t start, uint64_t end,
                        uint32_t thread) = 0;
  // The id that the next Call() gets; then it counts up, past 2^32 from 1 again.
  virtual void SetNextCorrelation(uint32_t id) = 0;
  // From here on the newest records come first.
  virtual void ReverseOrder() = 0;
  // Records that CUPTI says it lost.
  virtual void Drop(size_t count) = 0;
  // Hands all over now, as CUPTI does with full buffers.
  virtual void Deliver() = 0;
  // Asks for a buffer and keeps it, until it comes back empty.
  virtual void HoldBuffer() = 0;
  virtual void HandHeldBufferBack() = 0;

  // Every call of `function` ("cuptiActivityEnable") answers `result` and does nothing.
  virtual void Fail(const std::string& function, CUptiResult result) = 0;
  // cuptiActivityEnable of one kind.
  virtual void FailKind(CUpti_ActivityKind kind, CUptiResult result) = 0;
  virtual void SetVersion(uint32_t version) = 0;

  virtual uint64_t Now() = 0;                    // of the registered clock, 0 without one
  virtual std::vector<std::string> Calls() = 0;  // the functions called, in order
  virtual std::vector<int> EnabledKinds() = 0;
};

}  // namespace libreyolo

extern "C" libreyolo::FakeCupti* fakeCuptiInstance();
