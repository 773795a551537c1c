#include "server/worker/capture/capture_session.h"

#include <time.h>
#include <unistd.h>

#include <unordered_map>
#include <utility>

#include "common/base/clock.h"
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
  }
  return "unknown";
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

absl::StatusOr<CaptureCounts> CaptureSession::Stop() {
  recording_ = recorder_.Stop();
  base_time_ns_ = recording_.begin.monotonic_ns + WallMinusMonotonicNs();
  LY_ASSIGN_OR_RETURN(const CaptureLoss loss, source_.Stop());
  CaptureCounts counts;
  counts.op_count = recording_.record_count;
  counts.activity_count = static_cast<int64_t>(activities_.size());
  counts.dropped_count = recording_.dropped_count + loss.record_count;
  for (const ThreadOps& thread : recording_.threads) {
    for (const OpRecord& op : thread.ops) {
      if (op.end_ticks != 0) continue;
      --counts.op_count;
      ++counts.dropped_count;
    }
  }
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

void CaptureSession::WriteActivities(TraceWriter& writer) const {
  std::unordered_map<std::string, EventKind> kinds;
  // Where an arrow starts: the call of a correlation, if it was seen.
  std::unordered_map<uint32_t, const ActivityRecord*> calls;
  for (const ActivityRecord& record : activities_) {
    if (record.kind == ActivityKind::kRuntimeCall) calls.emplace(record.correlation_id, &record);
  }
  const EventKind flow = writer.Register("ac2g", "ac2g");
  for (const ActivityRecord& record : activities_) {
    const bool is_call = record.kind == ActivityKind::kRuntimeCall;
    const Lane lane =
        is_call ? Lane{getpid(), record.os_thread_id} : Lane{record.device, record.stream};
    const std::string key = CategoryOf(record.kind) + ("|" + record.name);
    auto found = kinds.find(key);
    if (found == kinds.end()) {
      found = kinds.emplace(key, writer.Register(CategoryOf(record.kind), record.name)).first;
    }
    std::vector<TraceArg> args{{"correlation", int64_t{record.correlation_id}}};
    if (!is_call) {
      args.push_back({"device", record.device});
      args.push_back({"stream", record.stream});
    }
    if (record.kind == ActivityKind::kKernel) {
      args.push_back({"grid", record.grid});
      args.push_back({"block", record.block});
    } else if (!is_call) {
      args.push_back({"bytes", record.bytes});
    }
    writer.AddComplete(found->second, lane, FromBegin(record.start_ns),
                       record.end_ns - record.start_ns, args);
    const auto call = is_call ? calls.end() : calls.find(record.correlation_id);
    if (call == calls.end() || record.correlation_id == 0) continue;
    writer.AddFlowStart(flow, {getpid(), call->second->os_thread_id},
                        FromBegin(call->second->start_ns), record.correlation_id);
    writer.AddFlowEnd(flow, lane, FromBegin(record.start_ns), record.correlation_id);
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
  if (!activities_.empty()) WriteActivities(*writer);
  return writer->Finish(metadata);
}

}  // namespace libreyolo::worker
