#include "common/analysis/processes.h"

#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace libreyolo::analysis {

Processes::Processes(const trace::RecordedTrace& trace) {
  by_thread_.resize(trace.threads.size());
  // Only calls and markers tell processes apart: some recorders write other rows under ids of their
  // own, and those belong to the one process that there is.
  std::vector<bool> tells(trace.threads.size());
  for (const trace::RuntimeCall& call : trace.calls) tells[call.thread] = true;
  std::set<std::string> callers;
  for (size_t i = 0; i < tells.size(); ++i) {
    if (tells[i]) callers.insert(trace.threads[i].pid);
  }
  std::set<std::string> marked;
  for (const trace::StepMarker& marker : trace.markers) {
    marked.insert(trace.threads[marker.thread].pid);
  }
  if (callers.size() < 2 && marked.size() < 2) {
    names_.push_back(!marked.empty() ? *marked.begin() : callers.empty() ? "" : *callers.begin());
    return;
  }
  for (const trace::OpRecord& op : trace.ops) tells[op.thread] = true;
  for (const trace::StepMarker& marker : trace.markers) tells[marker.thread] = true;
  absl::flat_hash_map<std::string, uint32_t> ids;
  for (size_t i = 0; i < by_thread_.size(); ++i) {
    if (!tells[i]) continue;
    const std::string& pid = trace.threads[i].pid;
    if (ids.emplace(pid, static_cast<uint32_t>(names_.size())).second) names_.push_back(pid);
  }
  std::vector<int64_t> markers(names_.size());
  for (const trace::StepMarker& marker : trace.markers)
    ++markers[ids[trace.threads[marker.thread].pid]];
  for (uint32_t i = 0; i < names_.size(); ++i) {
    if (markers[i] > markers[main_]) main_ = i;
  }
  for (size_t i = 0; i < by_thread_.size(); ++i) {
    const auto id = ids.find(trace.threads[i].pid);
    by_thread_[i] = id == ids.end() ? main_ : id->second;  // a device's row has no host process
  }
}

}  // namespace libreyolo::analysis
