#include "common/analysis/timeline/timeline.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/analysis/kernel_category.h"
#include "common/analysis/launch_index.h"
#include "common/analysis/phase_map.h"
#include "common/analysis/processes.h"
#include "common/analysis/runtime_calls.h"
#include "common/analysis/timeline/merge_slices.h"

namespace libreyolo::analysis {
namespace {

using trace::RecordedTrace;

// An event on its way to a row.
struct Event {
  int64_t start_ns;
  int64_t duration_ns;
  uint32_t name;
  uint32_t call;  // index of RecordedTrace::calls: of a call itself, or of what launched a kernel
  SliceKind kind;

  int64_t end_ns() const { return start_ns + duration_ns; }
};

constexpr uint32_t kNoCall = kNoSlice;  // Slice::launch holds calls until LinkLaunches
constexpr uint32_t kNoName = UINT32_MAX;

// Outer events first: what starts earlier, lasts longer, or is of an outer kind.
bool NestsBefore(const Event& a, const Event& b) {
  if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
  if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
  return a.kind < b.kind;
}

std::vector<CallKind> KindsOfCalls(const RecordedTrace& trace) {
  std::vector<CallKind> kinds(trace.names.size(), CallKind::kOther);
  std::vector<bool> known(trace.names.size());
  for (const trace::RuntimeCall& call : trace.calls) {
    if (known[call.name]) continue;
    known[call.name] = true;
    kinds[call.name] = KindOfCall(trace.Name(call.name));
  }
  return kinds;
}

class Layout {
 public:
  Layout(const RecordedTrace& trace, const TimelineOptions& options)
      : trace_(trace),
        options_(options),
        processes_(trace),
        call_kinds_(KindsOfCalls(trace)),
        launches_(trace, processes_, call_kinds_) {}

  Timeline Run();

 private:
  void AddSteps(uint32_t process);
  void AddPhases(uint32_t process);
  void AddStreams();
  void AddGpuAnnotations();
  void AddThreads();

  // The name's index for this kind.
  uint32_t Name(trace::NameId name, SliceKind kind);
  uint32_t OwnName(std::string text, SliceKind kind);
  template <typename Record>
  uint32_t LaunchOf(const Record& record) const {
    const size_t call = launches_.Find(record);
    return call == LaunchIndex::kNoCall ? kNoCall : static_cast<uint32_t>(call);
  }
  // The name of a track that each process has.
  std::string OfProcess(const char* name, uint32_t process) const {
    return processes_.several() ? absl::StrCat(name, ", pid ", processes_.name(process)) : name;
  }
  std::string DeviceTitle(int32_t device) const;

  // Puts `events` into the rows of a new track.
  void AddTrack(TrackKind kind, std::string name, std::string detail, uint32_t process,
                std::vector<Event> events);
  // From calls to slices.
  void LinkLaunches(const std::vector<uint32_t>& leaders);

  const RecordedTrace& trace_;
  const TimelineOptions options_;
  const Processes processes_;
  const std::vector<CallKind> call_kinds_;  // by name
  const LaunchIndex launches_;
  Timeline out_;
  std::array<std::vector<uint32_t>, kSliceKinds> name_ids_;
};

Timeline Layout::Run() {
  out_.start_ns = std::numeric_limits<int64_t>::max();
  out_.end_ns = std::numeric_limits<int64_t>::min();
  std::vector<uint32_t> processes = {processes_.main()};
  for (uint32_t process = 0; process < processes_.count(); ++process) {
    if (process != processes_.main()) processes.push_back(process);
  }
  for (const uint32_t process : processes) {
    AddSteps(process);
    AddPhases(process);
  }
  AddStreams();
  AddGpuAnnotations();
  AddThreads();
  if (out_.event_count == 0) out_.start_ns = out_.end_ns = 0;
  std::vector<uint32_t> leaders(trace_.calls.size());
  for (size_t i = 0; i < leaders.size(); ++i) leaders[i] = static_cast<uint32_t>(i);
  MergeToLimit(options_.max_slices, out_, leaders);
  LinkLaunches(leaders);
  return std::move(out_);
}

uint32_t Layout::OwnName(std::string text, SliceKind kind) {
  TimelineName name;
  name.text = std::move(text);
  name.kind = kind;
  out_.names.push_back(std::move(name));
  return static_cast<uint32_t>(out_.names.size() - 1);
}

uint32_t Layout::Name(trace::NameId name, SliceKind kind) {
  std::vector<uint32_t>& ids = name_ids_[static_cast<size_t>(kind)];
  if (ids.empty()) ids.resize(trace_.names.size(), kNoName);
  if (ids[name] != kNoName) return ids[name];
  ids[name] = OwnName(trace_.Name(name), kind);
  TimelineName& made = out_.names.back();
  if (kind == SliceKind::kKernel) {
    KernelClass kernel_class = ClassifyKernel(made.text);
    made.category = std::move(kernel_class.category);
    made.label = std::move(kernel_class.label);
    made.tensorcore = kernel_class.tensorcore;
  } else if (kind == SliceKind::kCall) {
    const CallKind call = call_kinds_[name];
    made.waits = call == CallKind::kSynchronize;
    made.launches = call == CallKind::kLaunch || call == CallKind::kGraphLaunch;
  }
  return ids[name];
}

void Layout::AddSteps(uint32_t process) {
  std::vector<Event> events;
  for (const trace::StepMarker& marker : trace_.markers) {
    if (processes_.OfThread(marker.thread) != process) continue;
    const std::string text =
        marker.number >= 0 ? absl::StrCat("step ", marker.number) : std::string("step");
    events.push_back({marker.start_ns, marker.duration_ns, OwnName(text, SliceKind::kStep), kNoCall,
                      SliceKind::kStep});
  }
  AddTrack(TrackKind::kSteps, OfProcess("Steps", process), "", process, std::move(events));
}

void Layout::AddPhases(uint32_t process) {
  const PhaseMap phases(trace_, processes_, process);
  std::vector<uint32_t> names;
  for (const std::string& name : phases.names()) names.push_back(OwnName(name, SliceKind::kPhase));
  std::vector<Event> events;
  for (const PhaseMap::Span& segment : phases.segments()) {
    events.push_back({segment.start_ns, segment.end_ns - segment.start_ns,
                      names[static_cast<size_t>(segment.phase)], kNoCall, SliceKind::kPhase});
  }
  AddTrack(TrackKind::kPhases, OfProcess("Phases", process), "", process, std::move(events));
}

std::string Layout::DeviceTitle(int32_t device) const {
  for (const trace::DeviceProperties& properties : trace_.devices) {
    if (properties.id == device && !properties.name.empty()) {
      return absl::StrCat("GPU ", device, " \xC2\xB7 ", properties.name);
    }
  }
  return absl::StrCat("GPU ", device);
}

void Layout::AddStreams() {
  std::map<std::pair<int32_t, int32_t>, std::vector<Event>> streams;
  const auto add = [&](const auto& record, SliceKind kind) {
    if (record.start_ns <= 0) {
      ++out_.untimed_count;
      return;
    }
    streams[{record.device, record.stream}].push_back(
        {record.start_ns, record.duration_ns, Name(record.name, kind), LaunchOf(record), kind});
  };
  for (const trace::KernelRecord& kernel : trace_.kernels) add(kernel, SliceKind::kKernel);
  for (const trace::CopyRecord& copy : trace_.copies) add(copy, SliceKind::kCopy);
  for (auto& [place, events] : streams) {
    AddTrack(TrackKind::kStream, absl::StrCat("stream ", place.second), DeviceTitle(place.first),
             launches_.ProcessOf(place.first), std::move(events));
  }
}

void Layout::AddGpuAnnotations() {
  std::map<trace::ThreadId, std::vector<Event>> threads;
  for (const trace::Annotation& annotation : trace_.annotations) {
    if (!annotation.on_gpu) continue;
    threads[annotation.thread].push_back({annotation.start_ns, annotation.duration_ns,
                                          Name(annotation.name, SliceKind::kAnnotation), kNoCall,
                                          SliceKind::kAnnotation});
  }
  for (auto& [id, events] : threads) {
    const trace::Thread& thread = trace_.threads[id];
    AddTrack(TrackKind::kGpuAnnotations, "annotations",
             absl::StrCat("GPU ", thread.pid, ", stream ", thread.tid), processes_.main(),
             std::move(events));
  }
}

void Layout::AddThreads() {
  std::vector<std::vector<Event>> threads(trace_.threads.size());
  for (const trace::Annotation& record : trace_.annotations) {
    if (record.on_gpu) continue;
    threads[record.thread].push_back({record.start_ns, record.duration_ns,
                                      Name(record.name, SliceKind::kAnnotation), kNoCall,
                                      SliceKind::kAnnotation});
  }
  for (const trace::OpRecord& record : trace_.ops) {
    threads[record.thread].push_back({record.start_ns, record.duration_ns,
                                      Name(record.name, SliceKind::kOp), kNoCall, SliceKind::kOp});
  }
  for (size_t i = 0; i < trace_.calls.size(); ++i) {
    const trace::RuntimeCall& record = trace_.calls[i];
    threads[record.thread].push_back({record.start_ns, record.duration_ns,
                                      Name(record.name, SliceKind::kCall), static_cast<uint32_t>(i),
                                      SliceKind::kCall});
  }
  // The thread that marks the steps first, then the busiest.
  std::vector<size_t> order(threads.size());
  std::vector<bool> marks(threads.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (const trace::StepMarker& marker : trace_.markers) marks[marker.thread] = true;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (marks[a] != marks[b]) return static_cast<bool>(marks[a]);
    return threads[a].size() > threads[b].size();
  });
  for (const size_t i : order) {
    const trace::Thread& thread = trace_.threads[i];
    std::string detail = absl::StrCat("pid ", thread.pid, ", tid ", thread.tid);
    if (!thread.process_name.empty()) absl::StrAppend(&detail, " \xC2\xB7 ", thread.process_name);
    AddTrack(TrackKind::kThread,
             thread.name.empty() ? absl::StrCat("thread ", thread.tid) : thread.name, detail,
             processes_.OfThread(static_cast<trace::ThreadId>(i)), std::move(threads[i]));
  }
}

void Layout::AddTrack(TrackKind kind, std::string name, std::string detail, uint32_t process,
                      std::vector<Event> events) {
  if (events.empty()) return;
  if (!std::is_sorted(events.begin(), events.end(), NestsBefore)) {
    std::stable_sort(events.begin(), events.end(), NestsBefore);
  }
  TimelineTrack track;
  track.kind = kind;
  track.name = std::move(name);
  track.detail = std::move(detail);
  track.process = process;
  std::vector<int64_t> open;  // the ends of the events around the next one
  for (const Event& event : events) {
    while (!open.empty() && open.back() <= event.start_ns) open.pop_back();
    const size_t row = open.size();
    if (row >= TimelineOptions::kMaxRows) {
      ++out_.too_deep_count;
      continue;
    }
    open.push_back(event.end_ns());
    if (row == track.rows.size()) track.rows.emplace_back();
    Slice slice;
    slice.start_ns = event.start_ns;
    slice.duration_ns = slice.busy_ns = event.duration_ns;
    slice.name = event.name;
    slice.launch = event.call;
    track.rows[row].push_back(slice);
    ++out_.event_count;
    out_.start_ns = std::min(out_.start_ns, event.start_ns);
    out_.end_ns = std::max(out_.end_ns, event.end_ns());
  }
  out_.slice_count = out_.event_count;
  if (!track.rows.empty()) out_.tracks.push_back(std::move(track));
}

void Layout::LinkLaunches(const std::vector<uint32_t>& leaders) {
  std::vector<uint32_t> slice_of_call(trace_.calls.size(), kNoSlice);
  uint32_t index = 0;
  for (const TimelineTrack& track : out_.tracks) {
    for (const std::vector<Slice>& row : track.rows) {
      for (const Slice& slice : row) {
        if (track.kind == TrackKind::kThread && slice.launch != kNoCall) {
          slice_of_call[slice.launch] = index;
        }
        ++index;
      }
    }
  }
  for (TimelineTrack& track : out_.tracks) {
    for (std::vector<Slice>& row : track.rows) {
      for (Slice& slice : row) {
        slice.launch = track.kind == TrackKind::kStream && slice.launch != kNoCall
                           ? slice_of_call[leaders[slice.launch]]
                           : kNoSlice;
      }
    }
  }
}

}  // namespace

Timeline LayOutTimeline(const RecordedTrace& trace, const TimelineOptions& options) {
  return Layout(trace, options).Run();
}

}  // namespace libreyolo::analysis
