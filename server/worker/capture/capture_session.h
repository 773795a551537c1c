// One capture: ops from OpRecorder, marks of the steps and their phases, and GPU activity from an
// ActivitySource, on one time line and written as one trace.
//
//   CaptureSession session({.clock = ChooseClock()}, source);
//   LY_RETURN_IF_ERROR(session.Start());
//   ... run steps; session.AddMark("step/forward", begin_ticks, end_ticks) ...
//   LY_ASSIGN_OR_RETURN(const CaptureCounts counts, session.Stop());
//   LY_RETURN_IF_ERROR(session.WriteTrace(path, names, metadata));
//
// For the thread that runs the steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/json/json_value.h"
#include "common/trace/trace_writer.h"
#include "server/worker/capture/activity_join.h"
#include "server/worker/capture/activity_source.h"
#include "server/worker/capture/capture_clock.h"
#include "server/worker/capture/op_recorder.h"

namespace libreyolo::worker {

struct CaptureCounts {
  int64_t op_count = 0;
  int64_t activity_count = 0;  // GPU work and calls inside the capture
  int64_t dropped_count = 0;   // ops without room or without an end, and what the source lost
  // How GPU work and the calls that start it fit together (activity_join.h).
  int64_t kernel_count = 0;
  int64_t launch_count = 0;
  int64_t launches_without_kernel = 0;
  int64_t work_without_call = 0;
  int64_t work_without_time = 0;
  std::vector<std::string> missing_kinds;  // of records that the source could not collect
};

// How the trace calls itself and its process.
struct TraceNames {
  std::string trace;    // "profile_trace.json"
  std::string process;  // "libreyolo-worker"
  std::string labels;   // "CPU"
  JsonValue::Array device_properties;
};

class CaptureSession : private RecordSink {
 public:
  struct Options {
    ClockKind clock = ClockKind::kClockGettime;
    int64_t max_op_records = int64_t{1} << 20;
    int64_t expected_op_records = int64_t{1} << 16;
    int64_t expected_marks = 256;
    // The captured work runs on a GPU: a capture without a kernel then failed.
    bool expects_kernels = false;
  };

  // `source` must outlive the session.
  CaptureSession(const Options& options, ActivitySource& source);

  // The errors of OpRecorder::Start and of the source. No op may run meanwhile.
  absl::Status Start();
  // A span on the calling thread, ticks from ReadTicks(options.clock).
  void AddMark(std::string name, uint64_t begin_ticks, uint64_t end_ticks);
  // Between the two, calls of this thread belong to phase `name`, by id and not by time. May nest.
  // For a CUDA capture; without one they do nothing.
  void EnterPhase(const std::string& name);
  void LeavePhase();
  // Ends the capture. The device must have finished its work, and no op may run. The source's
  // errors, and
  //   GPU_NOT_RECORDED  kernels were expected and none was recorded
  absl::StatusOr<CaptureCounts> Stop();

  // After Stop(). `metadata` goes under the trace's key "libreyolo". Errors are the writer's.
  absl::Status WriteTrace(const std::string& path, const TraceNames& names,
                          const JsonValue& metadata) const;

 private:
  struct Mark {
    std::string name;
    uint64_t begin_ticks;
    uint64_t end_ticks;
  };

  void OnActivity(ActivityRecord record) override;
  absl::Status CheckRecorded(const CaptureCounts& counts) const;
  void WriteMarks(trace::TraceWriter& writer, const ClockLine& line) const;
  void WriteOps(trace::TraceWriter& writer, const ClockLine& line) const;
  void WriteActivities(trace::TraceWriter& writer, const ClockLine& line) const;
  void WriteDeviceRows(trace::TraceWriter& writer, const std::string& process) const;
  std::vector<int64_t> OpsOfCalls(const ClockLine& line) const;
  int64_t FromBegin(int64_t monotonic_ns) const {
    return monotonic_ns - recording_.begin.monotonic_ns;
  }

  const Options options_;
  ActivitySource& source_;
  OpRecorder recorder_;
  int64_t step_thread_id_ = 0;
  int64_t base_time_ns_ = 0;  // wall clock at the trace's time 0
  std::vector<Mark> marks_;
  OpRecording recording_;
  std::vector<std::string> phases_;  // an id is an index plus 1
  // Written by the source's threads until Stop() has returned, read afterwards.
  std::vector<ActivityRecord> activities_;
  ActivityJoin join_;
};

}  // namespace libreyolo::worker
