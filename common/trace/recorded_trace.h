// What a profiler's trace holds, as far as the analysis needs it: one record for each event of a
// known kind, with names and threads interned. Plain data, made by ReadTrace (trace_reader.h).
//
// Times are integer nanoseconds on the trace's own clock. Durations are never negative. Records
// stand in the order of the file; nothing is sorted but `markers`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/json/json_value.h"

namespace libreyolo::trace {

// Ids index RecordedTrace::names and RecordedTrace::threads.
using NameId = uint32_t;
using ThreadId = uint32_t;

inline constexpr int64_t kNoCorrelation = -1;

// A framework operation on the host.
struct OpRecord {
  int64_t start_ns;
  int64_t duration_ns;
  NameId name;
  ThreadId thread;
};

// A kernel on a device. `start_ns` 0 means that the profiler lost its time.
struct KernelRecord {
  int64_t start_ns;
  int64_t duration_ns;
  int64_t correlation;  // the call that launched it; several kernels of a graph share one
  NameId name;
  int32_t device;  // one number for each device of each process
  int32_t stream;
  ThreadId row;   // where the trace draws it
  bool in_graph;  // the event names a graph node
};

// A copy or a fill on a device.
struct CopyRecord {
  int64_t start_ns;
  int64_t duration_ns;
  int64_t correlation;
  NameId name;
  int32_t device;
  int32_t stream;
  ThreadId row;
  bool is_memset;
};

// A call of the CUDA runtime or driver (or of HIP, which records the same way) on the host.
struct RuntimeCall {
  int64_t start_ns;
  int64_t duration_ns;
  int64_t correlation;
  NameId name;
  ThreadId thread;
};

// A span that the program named, on the host or as the profiler copied it to a device's row.
struct Annotation {
  int64_t start_ns;
  int64_t duration_ns;
  NameId name;
  ThreadId thread;
  bool on_gpu;
};

// One `ProfilerStep#N` that the HOST wrote.
struct StepMarker {
  int64_t start_ns;
  int64_t duration_ns;
  int64_t number;  // N; -1 without one
  ThreadId thread;
};

// A row of the trace. `pid` and `tid` are text: some profilers write words there.
struct Thread {
  std::string pid;
  std::string tid;
  std::string name;          // from the trace's metadata; may be empty
  std::string process_name;  // likewise
};

struct DeviceProperties {
  int64_t id = 0;
  std::string name;
  int64_t memory_bytes = 0;
  int64_t sm_count = 0;
  int64_t compute_major = 0;
  int64_t compute_minor = 0;
};

// What was read, left out and mended. Everything that is not in the records is counted here.
struct ReadCounts {
  int64_t bytes = 0;               // unpacked
  int64_t events = 0;              // elements of the event list
  int64_t other_events = 0;        // flows, instants, metadata, python frames: not needed
  int64_t invalid_times = 0;       // dropped: ts or dur is not finite, or out of range
  int64_t negative_durations = 0;  // kept, with the duration 0
  int64_t repaired_names = 0;      // events whose name holds an illegal escape, taken literally
  int64_t control_escapes = 0;    // distinct names with escaped control characters, kept as written
  int64_t bare_numbers = 0;       // inf, -inf, nan in arguments of device events
  int64_t replaced_bytes = 0;     // raw control characters in strings, invalid UTF-8
  int64_t duplicate_markers = 0;  // the same step marker again: left out
  int64_t device_markers = 0;     // step markers on a device's row: not steps
  int64_t loose_numbers = 0;      // times that no JSON has: 007, +5, .5, 1400.; read as meant
  bool trailing_comma = false;    // behind the last event
  bool byte_order_mark = false;
};

struct RecordedTrace {
  std::vector<std::string> names;
  std::vector<Thread> threads;

  std::vector<OpRecord> ops;
  std::vector<KernelRecord> kernels;
  std::vector<CopyRecord> copies;
  std::vector<RuntimeCall> calls;
  std::vector<Annotation> annotations;
  std::vector<StepMarker> markers;  // by start

  std::vector<DeviceProperties> devices;
  bool has_device_properties = false;          // the list was there, maybe empty
  std::vector<std::string> profiler_messages;  // the header's ERROR and WARNING texts
  int64_t rank = -1;                           // of a distributed job; -1 when the trace has none
  int64_t world_size = 0;
  JsonValue libreyolo;  // our own metadata (key "libreyolo"); null in foreign traces

  ReadCounts counts;

  const std::string& Name(NameId id) const { return names[id]; }
};

}  // namespace libreyolo::trace
