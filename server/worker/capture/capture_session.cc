#include "server/worker/capture/capture_session.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::worker {
namespace {

using trace::EventKind;
using trace::Lane;
using trace::TraceArg;
using trace::TraceWriter;

// Wall-clock nanoseconds at which CLOCK_MONOTONIC showed 0.
int64_t WallMinusMonotonicNs() {
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  return int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec - MonotonicNs();
}

const char* CategoryOf(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::kKernel:
      return "kernel";
    case ActivityKind::kMemcpy:
      return "gpu_memcpy";
    case ActivityKind::kMemset:
      return "gpu_memset";
    case ActivityKind::kRuntimeCall:
      return "cuda_runtime";
    case ActivityKind::kDriverCall:
      return "cuda_driver";
    case ActivityKind::kSynchronization:
      return "cuda_sync";
    case ActivityKind::kOverhead:
      return "overhead";
  }
  return "unknown";
}

bool IsCall(const ActivityRecord& record) {
  return record.kind == ActivityKind::kRuntimeCall || record.kind == ActivityKind::kDriverCall;
}

bool IsWork(const ActivityRecord& record) {
  return record.kind == ActivityKind::kKernel || record.kind == ActivityKind::kMemcpy ||
         record.kind == ActivityKind::kMemset;
}

// Below all rows of the host, as Kineto's viewers expect it.
constexpr int64_t kFirstDeviceRow = 5'000'000;
constexpr Lane kOverheadLane{-1, 0};

Lane LaneOf(const ActivityRecord& record,
            const std::unordered_map<int64_t, int64_t>& device_of_context) {
  if (IsCall(record)) return {getpid(), record.os_thread_id};
  if (record.kind == ActivityKind::kOverhead) return kOverheadLane;
  if (IsWork(record)) return {record.device, record.stream};
  const auto found = device_of_context.find(record.context);
  return {found == device_of_context.end() ? 0 : found->second, record.stream};
}

// Under the names that Kineto gives them.
void AddArgs(const ActivityRecord& record, const ActivityJoin::Entry& entry,
             std::vector<TraceArg>& args) {
  if (record.kind == ActivityKind::kOverhead) return;
  args.push_back({"correlation", entry.correlation});
  if (IsCall(record)) return;
  if (IsWork(record)) args.push_back({"device", int64_t{record.device}});
  args.push_back({"context", int64_t{record.context}});
  args.push_back({"stream", int64_t{record.stream}});
  if (record.kind == ActivityKind::kKernel) {
    args.push_back({"registers per thread", int64_t{record.registers}});
    args.push_back({"shared memory", int64_t{record.shared_bytes}});
    args.push_back({"grid", TraceArg::Triple{record.grid[0], record.grid[1], record.grid[2]}});
    args.push_back({"block", TraceArg::Triple{record.block[0], record.block[1], record.block[2]}});
  } else if (IsWork(record)) {
    args.push_back({"bytes", record.bytes});
  }
  if (record.graph_node != 0) {
    args.push_back({"graph node id", static_cast<int64_t>(record.graph_node)});
  }
}

}  // namespace

CaptureSession::CaptureSession(const Options& options, ActivitySource& source)
    : options_(options),
      source_(source),
      recorder_({.clock = options.clock,
                 .max_records = options.max_op_records,
                 .expected_records = options.expected_op_records}) {
  marks_.reserve(static_cast<size_t>(options.expected_marks));
}

absl::Status CaptureSession::Start() {
  step_thread_id_ = gettid();
  LY_RETURN_IF_ERROR(source_.Start(*this));
  absl::Status started = recorder_.Start();
  if (!started.ok()) source_.Stop().IgnoreError();
  return started;
}

void CaptureSession::AddMark(std::string name, uint64_t begin_ticks, uint64_t end_ticks) {
  marks_.push_back({std::move(name), begin_ticks, end_ticks});
}

void CaptureSession::OnActivity(ActivityRecord record) { activities_.push_back(std::move(record)); }

void CaptureSession::EnterPhase(const std::string& name) {
  const auto found = std::find(phases_.begin(), phases_.end(), name);
  const auto index = found - phases_.begin();
  if (found == phases_.end()) phases_.push_back(name);
  source_.PushPhase(static_cast<uint32_t>(index) + 1);
}

void CaptureSession::LeavePhase() { source_.PopPhase(); }

absl::Status CaptureSession::CheckRecorded(const CaptureCounts& counts) const {
  if (!options_.expects_kernels || counts.kernel_count > 0) return absl::OkStatus();
  return MakeError(reason::kGpuNotRecorded,
                   counts.launch_count > 0
                       ? absl::StrCat("the GPU was not recorded: ", counts.launch_count,
                                      " kernel launches were seen, and no kernel")
                       : "the GPU was not recorded: neither a kernel nor a launch was seen",
                   {"measure without a trace: --no-trace still gives all times",
                    "end other profilers of this GPU (Nsight, DCGM's profiling metrics)"},
                   {{"launches", absl::StrCat(counts.launch_count)},
                    {"lost_records", absl::StrCat(counts.dropped_count)}});
}

absl::StatusOr<CaptureCounts> CaptureSession::Stop() {
  recording_ = recorder_.Stop();
  base_time_ns_ = recording_.begin.monotonic_ns + WallMinusMonotonicNs();
  LY_ASSIGN_OR_RETURN(const CaptureLoss loss, source_.Stop());
  join_ = JoinActivities(activities_, recording_.begin.monotonic_ns, recording_.end.monotonic_ns);
  CaptureCounts counts;
  counts.op_count = recording_.record_count;
  counts.activity_count = static_cast<int64_t>(
      std::count_if(join_.entries.begin(), join_.entries.end(),
                    [](const ActivityJoin::Entry& entry) { return entry.kept; }));
  counts.dropped_count = recording_.dropped_count + loss.record_count;
  counts.kernel_count = join_.kernel_count;
  counts.launch_count = join_.launch_count;
  counts.launches_without_kernel = join_.launches_without_kernel;
  counts.work_without_call = join_.work_without_call;
  counts.work_without_time = join_.work_without_time;
  counts.missing_kinds = loss.missing_kinds;
  for (const ThreadOps& thread : recording_.threads) {
    for (const OpRecord& op : thread.ops) {
      if (op.end_ticks != 0) continue;
      --counts.op_count;
      ++counts.dropped_count;
    }
  }
  LY_RETURN_IF_ERROR(CheckRecorded(counts));
  return counts;
}

void CaptureSession::WriteMarks(TraceWriter& writer, const ClockLine& line) const {
  std::unordered_map<std::string, EventKind> kinds;
  for (const Mark& mark : marks_) {
    auto found = kinds.find(mark.name);
    if (found == kinds.end()) {
      found = kinds.emplace(mark.name, writer.Register("user_annotation", mark.name)).first;
    }
    const int64_t begin_ns = line.ToMonotonicNs(mark.begin_ticks);
    writer.AddComplete(found->second, {getpid(), step_thread_id_}, FromBegin(begin_ns),
                       line.ToMonotonicNs(mark.end_ticks) - begin_ns);
  }
}

void CaptureSession::WriteOps(TraceWriter& writer, const ClockLine& line) const {
  std::vector<EventKind> ops;
  std::vector<EventKind> scopes;
  for (const std::string& name : recording_.names) {
    ops.push_back(writer.Register("cpu_op", name));
    scopes.push_back(writer.Register("user_annotation", name));
  }
  int64_t external_id = 0;
  for (const ThreadOps& thread : recording_.threads) {
    const Lane lane{getpid(), thread.os_thread_id};
    for (const OpRecord& op : thread.ops) {
      ++external_id;
      if (op.end_ticks == 0) continue;
      const int64_t begin_ns = line.ToMonotonicNs(op.start_ticks);
      const int64_t duration_ns = line.ToMonotonicNs(op.end_ticks) - begin_ns;
      const EventKind kind = op.scope == OpScope::kUser ? scopes[op.name_id] : ops[op.name_id];
      // Kineto's rule: the two autograd fields stand where there is a sequence number.
      const TraceArg args[] = {{"External id", external_id},
                               {"Sequence number", op.sequence},
                               {"Fwd thread id", static_cast<int64_t>(op.forward_thread)}};
      writer.AddComplete(kind, lane, FromBegin(begin_ns), duration_ns,
                         absl::MakeConstSpan(args, op.sequence >= 0 ? 3 : 1));
    }
  }
}

// For each record the External id of the op that made it: of those that were open on the call's
// thread when the call began the innermost, and 0 where there is none. GPU work has its call's.
std::vector<int64_t> CaptureSession::OpsOfCalls(const ClockLine& line) const {
  std::vector<int64_t> result(activities_.size());
  std::map<int64_t, std::vector<size_t>> calls_of_thread;
  for (size_t i = 0; i < activities_.size(); ++i) {
    if (IsCall(activities_[i])) calls_of_thread[activities_[i].os_thread_id].push_back(i);
  }
  int64_t external_id = 0;
  for (const ThreadOps& thread : recording_.threads) {
    std::vector<size_t>& calls = calls_of_thread[thread.os_thread_id];
    std::sort(calls.begin(), calls.end(), [this](size_t a, size_t b) {
      return activities_[a].start_ns < activities_[b].start_ns;
    });
    std::vector<std::pair<int64_t, int64_t>> open;  // end, External id
    size_t next = 0;
    const auto take_until = [&](int64_t time_ns) {
      for (; next < calls.size() && activities_[calls[next]].start_ns < time_ns; ++next) {
        const int64_t start_ns = activities_[calls[next]].start_ns;
        while (!open.empty() && open.back().first <= start_ns) open.pop_back();
        if (!open.empty()) result[calls[next]] = open.back().second;
      }
    };
    for (const OpRecord& op : thread.ops) {
      ++external_id;
      if (op.end_ticks == 0) continue;
      const int64_t start_ns = line.ToMonotonicNs(op.start_ticks);
      take_until(start_ns);
      while (!open.empty() && open.back().first <= start_ns) open.pop_back();
      open.emplace_back(line.ToMonotonicNs(op.end_ticks), external_id);
    }
    take_until(std::numeric_limits<int64_t>::max());
  }
  for (size_t i = 0; i < activities_.size(); ++i) {
    const int64_t call = join_.entries[i].call;
    if (call != kNoCall) result[i] = result[static_cast<size_t>(call)];
  }
  return result;
}

void CaptureSession::WriteDeviceRows(TraceWriter& writer, const std::string& process) const {
  std::map<int64_t, std::set<int64_t>> streams;
  for (size_t i = 0; i < activities_.size(); ++i) {
    const ActivityRecord& record = activities_[i];
    if (join_.entries[i].kept && IsWork(record)) streams[record.device].insert(record.stream);
  }
  for (const auto& [device, numbers] : streams) {
    writer.AddProcess(device, process, absl::StrCat("GPU ", device), kFirstDeviceRow + device);
    for (const int64_t stream : numbers) {
      writer.AddThread({device, stream}, absl::StrCat("stream ", stream), stream);
    }
  }
}

void CaptureSession::WriteActivities(TraceWriter& writer, const ClockLine& line) const {
  // Names are the source's own and equal where they are the same text, or at worst a little more
  // is registered.
  std::map<std::pair<ActivityKind, const char*>, EventKind> kinds;
  std::unordered_map<int64_t, int64_t> device_of_context;
  for (const ActivityRecord& record : activities_) {
    if (IsWork(record)) device_of_context.emplace(record.context, record.device);
  }
  const EventKind flow = writer.Register("ac2g", "ac2g");
  const std::vector<int64_t> op_of_record = OpsOfCalls(line);
  std::vector<TraceArg> args;
  for (size_t i = 0; i < activities_.size(); ++i) {
    const ActivityRecord& record = activities_[i];
    const ActivityJoin::Entry& entry = join_.entries[i];
    if (!entry.kept) continue;
    const auto [found, is_new] = kinds.try_emplace({record.kind, record.name.data()}, EventKind{0});
    if (is_new) {
      found->second = writer.Register(CategoryOf(record.kind),
                                      absl::string_view(record.name.data(), record.name.size()));
    }
    const Lane lane = LaneOf(record, device_of_context);
    args.clear();
    if (op_of_record[i] > 0) args.push_back({"External id", op_of_record[i]});
    AddArgs(record, entry, args);
    if (record.phase_id > 0 && record.phase_id <= phases_.size()) {
      args.push_back({"phase", absl::string_view(phases_[record.phase_id - 1])});
    }
    // A time that was not collected stands as 0 and is known as such; 0 is before any call.
    const bool untimed = record.start_ns == 0 && record.end_ns == 0;
    const int64_t start_ns = untimed ? 0 : FromBegin(record.start_ns);
    writer.AddComplete(found->second, lane, start_ns, record.end_ns - record.start_ns, args);
    if (entry.call == kNoCall) continue;
    const ActivityRecord& call = activities_[static_cast<size_t>(entry.call)];
    writer.AddFlowStart(flow, {getpid(), call.os_thread_id}, FromBegin(call.start_ns),
                        entry.correlation);
    writer.AddFlowEnd(flow, lane, start_ns, entry.correlation);
  }
}

absl::Status CaptureSession::WriteTrace(const std::string& path, const TraceNames& names,
                                        const JsonValue& metadata) const {
  LY_ASSIGN_OR_RETURN(auto writer,
                      TraceWriter::Open(path, {.name = names.trace,
                                               .base_time_ns = base_time_ns_,
                                               .device_properties = names.device_properties}));
  const ClockLine line(options_.clock, recording_.begin, recording_.end);
  const int64_t pid = getpid();
  writer->AddProcess(pid, names.process, names.labels, pid);
  writer->AddThread({pid, step_thread_id_}, "steps", 0);
  int64_t row = 0;
  for (const ThreadOps& thread : recording_.threads) {
    if (thread.os_thread_id == step_thread_id_) continue;
    writer->AddThread({pid, thread.os_thread_id}, thread.thread_name, ++row);
  }
  WriteMarks(*writer, line);
  WriteOps(*writer, line);
  if (!activities_.empty()) {
    WriteDeviceRows(*writer, names.process);
    WriteActivities(*writer, line);
  }
  return writer->Finish(metadata);
}

}  // namespace libreyolo::worker
