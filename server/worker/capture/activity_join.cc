#include "server/worker/capture/activity_join.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace libreyolo::worker {
namespace {

bool IsCall(const ActivityRecord& record) {
  return record.kind == ActivityKind::kRuntimeCall || record.kind == ActivityKind::kDriverCall;
}

bool IsWork(const ActivityRecord& record) {
  return record.kind == ActivityKind::kKernel || record.kind == ActivityKind::kMemcpy ||
         record.kind == ActivityKind::kMemset;
}

class Joiner {
 public:
  Joiner(const std::vector<ActivityRecord>& records, int64_t begin_ns, int64_t end_ns)
      : records_(records), begin_ns_(begin_ns), end_ns_(end_ns) {
    join_.entries.resize(records.size());
    kernels_of_call_.resize(records.size());
  }

  ActivityJoin Join() {
    SortCalls();
    FindNestedCalls();
    NumberCalls();
    for (size_t i = 0; i < records_.size(); ++i) {
      if (IsWork(records_[i])) AddWork(i);
      if (!IsCall(records_[i]) && !IsWork(records_[i])) AddOther(i);
    }
    for (const size_t i : calls_) AddCall(i);
    return std::move(join_);
  }

 private:
  struct Numbered {
    int64_t start_ns;
    size_t call;
  };

  bool StartsInside(const ActivityRecord& record) const {
    return record.start_ns >= begin_ns_ && record.start_ns < end_ns_;
  }

  void SortCalls() {
    for (size_t i = 0; i < records_.size(); ++i) {
      if (IsCall(records_[i])) calls_.push_back(i);
    }
    // An outer call before what it calls.
    std::sort(calls_.begin(), calls_.end(), [this](size_t a, size_t b) {
      const ActivityRecord& left = records_[a];
      const ActivityRecord& right = records_[b];
      if (left.start_ns != right.start_ns) return left.start_ns < right.start_ns;
      if (left.end_ns != right.end_ns) return left.end_ns > right.end_ns;
      return left.kind < right.kind;
    });
  }

  // A runtime call may be carried out by driver calls of its own. Counting both would count every
  // launch twice.
  void FindNestedCalls() {
    stands_for_.resize(records_.size());
    std::iota(stands_for_.begin(), stands_for_.end(), size_t{0});
    std::map<int64_t, size_t> open;  // by thread: the runtime call that ends last
    for (const size_t i : calls_) {
      const ActivityRecord& call = records_[i];
      const auto outer = open.find(call.os_thread_id);
      if (outer != open.end() && call.kind == ActivityKind::kDriverCall &&
          call.end_ns <= records_[outer->second].end_ns) {
        stands_for_[i] = outer->second;
        continue;
      }
      if (call.kind == ActivityKind::kRuntimeCall) open[call.os_thread_id] = i;
    }
  }

  // The calls of each correlation id by start. Where an id comes again, the count passed 2^32.
  void NumberCalls() {
    for (const size_t i : calls_) {
      const uint32_t id = records_[i].correlation_id;
      if (id == 0) continue;
      std::vector<Numbered>& same = by_correlation_[id];
      const size_t call = stands_for_[i];
      // A driver call often has the id of the runtime call around it.
      if (!same.empty() && same.back().call == call) continue;
      join_.entries[i].correlation = int64_t{id} + (static_cast<int64_t>(same.size()) << 32);
      same.push_back({records_[i].start_ns, call});
    }
  }

  // The call that started `work`: of those with its id the last that began before it.
  int64_t CallOf(const ActivityRecord& work) const {
    if (work.correlation_id == 0) return kNoCall;
    const auto found = by_correlation_.find(work.correlation_id);
    if (found == by_correlation_.end()) return kNoCall;
    const std::vector<Numbered>& same = found->second;
    // Where there is one call it is that one, whatever the clocks of host and GPU say.
    if (same.size() == 1) return static_cast<int64_t>(same[0].call);
    const auto after =
        std::upper_bound(same.begin(), same.end(), work.start_ns,
                         [](int64_t time, const Numbered& call) { return time < call.start_ns; });
    return static_cast<int64_t>((after == same.begin() ? after : after - 1)->call);
  }

  void AddWork(size_t i) {
    const ActivityRecord& work = records_[i];
    ActivityJoin::Entry& entry = join_.entries[i];
    entry.call = CallOf(work);
    const bool untimed = work.start_ns == 0 && work.end_ns == 0;
    if (entry.call != kNoCall) {
      const auto call = static_cast<size_t>(entry.call);
      entry.kept = StartsInside(records_[call]);
      entry.correlation = join_.entries[call].correlation;
      if (work.kind == ActivityKind::kKernel) ++kernels_of_call_[call];
    } else {
      entry.kept = untimed || (work.end_ns > begin_ns_ && work.start_ns < end_ns_);
      entry.correlation = work.correlation_id;
    }
    if (!entry.kept) {
      ++join_.out_of_window_count;
      return;
    }
    if (work.kind == ActivityKind::kKernel) ++join_.kernel_count;
    if (entry.call == kNoCall) ++join_.work_without_call;
    if (untimed) ++join_.work_without_time;
  }

  void AddOther(size_t i) {
    ActivityJoin::Entry& entry = join_.entries[i];
    entry.kept = records_[i].end_ns > begin_ns_ && records_[i].start_ns < end_ns_;
    entry.correlation = records_[i].correlation_id;
    if (!entry.kept) ++join_.out_of_window_count;
  }

  void AddCall(size_t i) {
    ActivityJoin::Entry& entry = join_.entries[i];
    if (stands_for_[i] != i) {
      entry.kept = false;
      ++join_.nested_call_count;
      return;
    }
    entry.kept = StartsInside(records_[i]);
    if (!entry.kept) {
      ++join_.out_of_window_count;
      return;
    }
    if (!IsLaunch(records_[i].name)) return;
    ++join_.launch_count;
    if (kernels_of_call_[i] == 0) ++join_.launches_without_kernel;
  }

  const std::vector<ActivityRecord>& records_;
  const int64_t begin_ns_;
  const int64_t end_ns_;
  ActivityJoin join_;
  std::vector<size_t> calls_;       // by start
  std::vector<size_t> stands_for_;  // by record: the call that represents it
  std::vector<int64_t> kernels_of_call_;
  std::unordered_map<uint32_t, std::vector<Numbered>> by_correlation_;
};

}  // namespace

bool IsLaunch(std::string_view call_name) {
  for (const std::string_view word :
       {std::string_view("cudaLaunch"), std::string_view("cuLaunch"),
        std::string_view("cudaGraphLaunch"), std::string_view("cuGraphLaunch")}) {
    if (call_name.substr(0, word.size()) != word) continue;
    return call_name.find("HostFunc") == std::string_view::npos;
  }
  return false;
}

ActivityJoin JoinActivities(const std::vector<ActivityRecord>& records, int64_t begin_ns,
                            int64_t end_ns) {
  return Joiner(records, begin_ns, end_ns).Join();
}

}  // namespace libreyolo::worker
