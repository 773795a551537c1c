// Which host call started a kernel or a copy. Pure.
//
// The link is the correlation id, which each process counts by itself and which may come again in a
// long recording. Where an id has several calls, the device's own process is asked, and of its
// calls the latest that began before the kernel did.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/analysis/processes.h"
#include "common/analysis/runtime_calls.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

class LaunchIndex {
 public:
  static constexpr size_t kNoCall = SIZE_MAX;

  // `call_kinds` by name. All must outlive the index.
  LaunchIndex(const trace::RecordedTrace& trace, const Processes& processes,
              const std::vector<CallKind>& call_kinds);

  // Into RecordedTrace::calls, or kNoCall.
  template <typename Record>  // KernelRecord, CopyRecord
  size_t Find(const Record& record) const {
    return Find(record.correlation, record.device, record.start_ns);
  }
  // The process that uses a device; the main one when that cannot be told.
  uint32_t ProcessOf(int32_t device) const;

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr uint32_t kAnyProcess = UINT32_MAX;

  size_t Find(int64_t correlation, int32_t device, int64_t start_ns) const;
  size_t Choose(uint32_t head, uint32_t process, int64_t start_ns) const;
  uint32_t Next(uint32_t call) const { return next_.empty() ? kEnd : next_[call]; }
  bool IsLaunch(const trace::RuntimeCall& call) const;
  struct Votes;
  void FindOwners();
  void ExchangeOwners(const std::map<int32_t, std::vector<Votes>>& votes,
                      const std::set<std::pair<int32_t, int32_t>>& apart);
  uint32_t OwnerOf(int32_t device) const;

  const trace::RecordedTrace& trace_;
  const Processes& processes_;
  const std::vector<CallKind>& call_kinds_;
  absl::flat_hash_map<int64_t, uint32_t> heads_;  // the id's last call in the file
  std::vector<uint32_t> next_;                    // the one before; empty when no id comes twice
  std::map<int32_t, uint32_t> owners_;            // device -> process, or kAnyProcess
};

}  // namespace libreyolo::analysis
