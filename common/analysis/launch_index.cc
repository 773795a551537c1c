#include "common/analysis/launch_index.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace libreyolo::analysis {

LaunchIndex::LaunchIndex(const trace::RecordedTrace& trace, const Processes& processes,
                         const std::vector<CallKind>& call_kinds)
    : trace_(trace), processes_(processes), call_kinds_(call_kinds) {
  heads_.reserve(trace.calls.size());
  for (uint32_t i = 0; i < trace.calls.size(); ++i) {
    const int64_t correlation = trace.calls[i].correlation;
    if (correlation < 0) continue;
    const auto [it, inserted] = heads_.emplace(correlation, i);
    if (inserted) continue;
    if (next_.empty()) next_.resize(trace.calls.size(), kEnd);
    next_[i] = it->second;
    it->second = i;
  }
  if (processes.several()) FindOwners();
}

bool LaunchIndex::IsLaunch(const trace::RuntimeCall& call) const {
  const CallKind kind = call_kinds_[call.name];
  return kind == CallKind::kLaunch || kind == CallKind::kGraphLaunch;
}

// Of a chain's calls in `process`: a launch before any other call, then one that began in time
// before one that did not, then the latest of those in time or the earliest of those too late.
size_t LaunchIndex::Choose(uint32_t head, uint32_t process, int64_t start_ns) const {
  size_t best = kNoCall;
  const auto is_better = [&](const trace::RuntimeCall& call, const trace::RuntimeCall& than) {
    if (IsLaunch(call) != IsLaunch(than)) return IsLaunch(call);
    const bool in_time = call.start_ns <= start_ns;
    if (in_time != (than.start_ns <= start_ns)) return in_time;
    return in_time ? call.start_ns > than.start_ns : call.start_ns < than.start_ns;
  };
  for (uint32_t i = head; i != kEnd; i = Next(i)) {
    const trace::RuntimeCall& call = trace_.calls[i];
    if (process != kAnyProcess && processes_.OfThread(call.thread) != process) continue;
    if (best == kNoCall || is_better(call, trace_.calls[best])) best = i;
  }
  return best;
}

size_t LaunchIndex::Find(int64_t correlation, int32_t device, int64_t start_ns) const {
  if (correlation < 0) return kNoCall;
  const auto head = heads_.find(correlation);
  if (head == heads_.end()) return kNoCall;
  if (!processes_.several() && Next(head->second) == kEnd) return head->second;
  return Choose(head->second, OwnerOf(device), start_ns);
}

uint32_t LaunchIndex::OwnerOf(int32_t device) const {
  const auto owner = owners_.find(device);
  return owner == owners_.end() ? kAnyProcess : owner->second;
}

uint32_t LaunchIndex::ProcessOf(int32_t device) const {
  const uint32_t owner = OwnerOf(device);
  return owner == kAnyProcess ? processes_.main() : owner;
}

// What speaks for each process as the one that uses a device.
struct LaunchIndex::Votes {
  int64_t in_time = 0;  // kernels for which it has a call that began before
  int64_t closest_ns = std::numeric_limits<int64_t>::max();
};

// A device belongs to the process that has the right call for each of its kernels: one that began
// before the kernel. Ranks run the same program, so their ids alone may all agree; then the process
// is the one that came closest to a kernel's start. A call starts work on one device, so devices
// whose kernels share ids are of different processes.
void LaunchIndex::FindOwners() {
  std::map<int32_t, std::vector<Votes>> votes;
  std::map<int32_t, int64_t> kernels;
  absl::flat_hash_map<int64_t, std::set<int32_t>> devices_of_id;
  for (const trace::KernelRecord& kernel : trace_.kernels) {
    if (kernel.correlation < 0 || kernel.start_ns <= 0) continue;
    const auto head = heads_.find(kernel.correlation);
    if (head == heads_.end()) continue;
    devices_of_id[kernel.correlation].insert(kernel.device);
    ++kernels[kernel.device];
    std::vector<Votes>& device = votes[kernel.device];
    device.resize(processes_.count());
    for (uint32_t process = 0; process < processes_.count(); ++process) {
      const size_t call = Choose(head->second, process, kernel.start_ns);
      if (call == kNoCall || trace_.calls[call].start_ns > kernel.start_ns) continue;
      ++device[process].in_time;
      device[process].closest_ns =
          std::min(device[process].closest_ns, kernel.start_ns - trace_.calls[call].start_ns);
    }
  }
  std::set<std::pair<int32_t, int32_t>> apart;
  for (const auto& [id, devices] : devices_of_id) {
    for (const int32_t a : devices) {
      for (const int32_t b : devices) {
        if (a != b) apart.insert({a, b});
      }
    }
  }
  for (const auto& entry : votes) {
    const int32_t device = entry.first;
    const std::vector<Votes>& of_device = entry.second;
    uint32_t best = kAnyProcess;
    for (uint32_t process = 0; process < of_device.size(); ++process) {
      // A device that several processes share has no owner.
      if (of_device[process].in_time * 20 < kernels[device] * 19) continue;
      const bool taken = std::any_of(owners_.begin(), owners_.end(), [&](const auto& owner) {
        return owner.second == process && apart.count({device, owner.first}) > 0;
      });
      if (taken) continue;
      if (best == kAnyProcess || of_device[process].closest_ns < of_device[best].closest_ns) {
        best = process;
      }
    }
    owners_[device] = best;
  }
  ExchangeOwners(votes, apart);
}

// Two devices may each have got the other's process. The delay between a launch and its kernel is
// much the same on all of them, so the right way round is that with the smaller larger delay.
void LaunchIndex::ExchangeOwners(const std::map<int32_t, std::vector<Votes>>& votes,
                                 const std::set<std::pair<int32_t, int32_t>>& apart) {
  for (const auto& [a, b] : apart) {
    uint32_t& of_a = owners_[a];
    uint32_t& of_b = owners_[b];
    if (of_a == kAnyProcess || of_b == kAnyProcess) continue;
    const std::vector<Votes>& for_a = votes.at(a);
    const std::vector<Votes>& for_b = votes.at(b);
    if (for_a[of_b].in_time < for_a[of_a].in_time || for_b[of_a].in_time < for_b[of_b].in_time) {
      continue;
    }
    if (std::max(for_a[of_b].closest_ns, for_b[of_a].closest_ns) <
        std::max(for_a[of_a].closest_ns, for_b[of_b].closest_ns)) {
      std::swap(of_a, of_b);
    }
  }
}

}  // namespace libreyolo::analysis
