#include "common/trace/trace_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::trace {
namespace {

int64_t IntMember(const JsonValue& object, absl::string_view key, int64_t missing) {
  const JsonValue* member = object.Find(key);
  if (member == nullptr || !member->is_number()) return missing;
  const double value = member->number();
  return value > -9e18 && value < 9e18 ? static_cast<int64_t>(value) : missing;
}

void AddDevices(const JsonValue& list, RecordedTrace& trace) {
  if (!list.is_array()) return;
  trace.has_device_properties = true;
  for (const JsonValue& item : list.array()) {
    DeviceProperties device;
    device.id = IntMember(item, "id", 0);
    const JsonValue* name = item.Find("name");
    if (name != nullptr && name->is_string()) device.name = name->string_value();
    device.memory_bytes = IntMember(item, "totalGlobalMem", 0);
    device.sm_count = IntMember(item, "numSms", 0);
    device.compute_major = IntMember(item, "computeMajor", 0);
    device.compute_minor = IntMember(item, "computeMinor", 0);
    trace.devices.push_back(std::move(device));
  }
}

}  // namespace

absl::Status AddHeaderMember(absl::string_view key, absl::string_view value, int64_t max_bytes,
                             int64_t offset, RecordedTrace& trace) {
  const bool ours = key == "libreyolo";
  const bool messages = key == "ERROR" || key == "WARNING";
  if (!ours && !messages && key != "deviceProperties" && key != "distributedInfo") {
    return absl::OkStatus();
  }
  JsonLimits limits;
  limits.max_bytes = max_bytes;
  absl::StatusOr<JsonValue> json = ParseJson(value, limits);
  if (!json.ok()) {
    // The header is for information only, except for what we wrote ourselves.
    if (!ours) return absl::OkStatus();
    return MakeError(
        reason::kTraceUnparsable,
        absl::StrCat("the member \"libreyolo\" cannot be read (",
                     std::string(json.status().message()), "); it begins at byte ", offset),
        {}, {{"byte_offset", absl::StrCat(offset)}});
  }
  if (ours) {
    trace.libreyolo = *std::move(json);
  } else if (key == "deviceProperties") {
    AddDevices(*json, trace);
  } else if (key == "distributedInfo") {
    trace.rank = IntMember(*json, "rank", -1);
    trace.world_size = IntMember(*json, "world_size", 0);
  } else if (json->is_array()) {
    for (const JsonValue& item : json->array()) {
      if (item.is_string()) trace.profiler_messages.push_back(item.string_value());
    }
  } else if (json->is_string()) {
    trace.profiler_messages.push_back(json->string_value());
  }
  return absl::OkStatus();
}

void SplitMarkers(const NameTable& names, EventLists& lists, RecordedTrace& trace) {
  std::vector<bool> device_row(trace.threads.size());
  for (const KernelRecord& kernel : lists.kernels) device_row[kernel.row] = true;
  // A recorder that gives kernels no row of their own has none for a device.
  for (const OpRecord& op : lists.ops) device_row[op.thread] = false;
  for (const RuntimeCall& call : lists.calls) device_row[call.thread] = false;
  const auto on_device_row = [&](const Annotation& annotation) {
    return device_row[annotation.thread] ||
           absl::StartsWith(trace.threads[annotation.thread].tid, "stream ");
  };
  auto kept = lists.annotations.begin();
  for (Annotation& annotation : lists.annotations) {
    if (!annotation.on_gpu && on_device_row(annotation)) annotation.on_gpu = true;
    if (names.info(annotation.name).kind != NameKind::kStepMarker) {
      *kept++ = annotation;
    } else if (annotation.on_gpu) {
      ++lists.counts.device_markers;
    } else {
      const std::string& name = names.names()[annotation.name];
      const size_t hash = name.find('#');
      int64_t number = -1;
      if (hash != std::string::npos &&
          !absl::SimpleAtoi(absl::string_view(name).substr(hash + 1), &number)) {
        number = -1;
      }
      trace.markers.push_back(
          {annotation.start_ns, annotation.duration_ns, number, annotation.thread});
    }
  }
  lists.annotations.erase(kept, lists.annotations.end());
  std::stable_sort(
      trace.markers.begin(), trace.markers.end(),
      [](const StepMarker& a, const StepMarker& b) { return a.start_ns < b.start_ns; });
  // Written twice by some exporters, for the host's row and for a row of their own.
  const auto same = [](const StepMarker& a, const StepMarker& b) {
    return a.start_ns == b.start_ns && a.duration_ns == b.duration_ns && a.number == b.number &&
           a.number >= 0 && a.thread == b.thread;
  };
  const auto end = std::unique(trace.markers.begin(), trace.markers.end(), same);
  lists.counts.duplicate_markers = trace.markers.end() - end;
  trace.markers.erase(end, trace.markers.end());
}

void SeparateDevices(EventLists& lists, const RecordedTrace& trace) {
  // Numbers in use, by the process of their rows. Mostly each has one, and nothing is to do.
  std::map<int32_t, std::set<std::string>> processes;
  bool shared = false;
  const auto note = [&](const auto& records) {
    ThreadId last_row = 0;
    int32_t last_device = 0;
    bool first = true;
    for (const auto& record : records) {
      if (!first && record.row == last_row && record.device == last_device) continue;
      first = false;
      last_row = record.row;
      last_device = record.device;
      std::set<std::string>& seen = processes[record.device];
      seen.insert(trace.threads[record.row].pid);
      shared |= seen.size() > 1;
    }
  };
  note(lists.kernels);
  note(lists.copies);
  if (!shared) return;
  std::set<int32_t> used;
  for (const auto& [device, pids] : processes) used.insert(device);
  std::map<std::pair<int32_t, std::string>, int32_t> ids;
  for (const auto& [device, pids] : processes) {
    bool first = true;
    for (const std::string& pid : pids) {
      int32_t id = device;
      if (!first) {
        // The row's process id where it is a number of its own, else the next that is free.
        if (!absl::SimpleAtoi(pid, &id) || id < 0 || used.count(id) > 0) id = *used.rbegin() + 1;
        used.insert(id);
      }
      ids[{device, pid}] = id;
      first = false;
    }
  }
  const auto rename = [&](auto& records) {
    for (auto& record : records)
      record.device = ids[{record.device, trace.threads[record.row].pid}];
  };
  rename(lists.kernels);
  rename(lists.copies);
}

void NameThreads(const std::vector<RowName>& row_names, std::vector<Thread>& threads) {
  for (const RowName& row : row_names) {
    for (Thread& thread : threads) {
      if (thread.pid != row.pid) continue;
      if (row.is_process) {
        thread.process_name = row.name;
      } else if (thread.tid == row.tid) {
        thread.name = row.name;
      }
    }
  }
}

}  // namespace libreyolo::trace
