#include "common/analysis/phase_map.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace libreyolo::analysis {
namespace {

constexpr std::array<const char*, 7> kPhaseOrder = {
    "dataload", "to_device", "preprocess", "forward", "backward", "postprocess", "optimizer"};

// How a span came to be a phase; the strongest kind in a trace wins.
enum class Source { kNone, kStep, kLoader, kHeuristic };

Source SourceOf(absl::string_view name, std::string* phase) {
  if (absl::StartsWith(name, "step/")) {
    *phase = std::string(name.substr(5));
    return phase->empty() ? Source::kNone : Source::kStep;
  }
  if (absl::StartsWith(name, "enumerate(DataLoader)#")) {
    *phase = "dataload";
    return Source::kLoader;
  }
  if (absl::StartsWith(name, "Optimizer.step#")) {
    *phase = "optimizer";
    return Source::kHeuristic;
  }
  if (absl::StartsWith(name, "## ") && absl::EndsWith(name, " ##") && name.size() > 6) {
    const absl::string_view inner = name.substr(3, name.size() - 6);
    for (const char* known : kPhaseOrder) {
      if (inner == known) {
        *phase = known;
        return Source::kHeuristic;
      }
    }
  }
  return Source::kNone;
}

}  // namespace

int PhaseOrder(const std::string& name) {
  for (size_t i = 0; i < kPhaseOrder.size(); ++i) {
    if (name == kPhaseOrder[i]) return static_cast<int>(i);
  }
  return static_cast<int>(kPhaseOrder.size());
}

PhaseMap::PhaseMap(const trace::RecordedTrace& trace)
    : PhaseMap(trace, [](trace::ThreadId) { return true; }) {}

PhaseMap::PhaseMap(const trace::RecordedTrace& trace, const Processes& processes, uint32_t process)
    : PhaseMap(trace,
               [&](trace::ThreadId thread) { return processes.OfThread(thread) == process; }) {}

PhaseMap::PhaseMap(const trace::RecordedTrace& trace,
                   absl::FunctionRef<bool(trace::ThreadId)> has_thread) {
  struct Candidate {
    Span span;
    Source source;
    std::string phase;
    trace::ThreadId thread;
  };
  std::set<trace::ThreadId> step_threads;
  for (const trace::StepMarker& marker : trace.markers) {
    if (has_thread(marker.thread)) step_threads.insert(marker.thread);
  }
  const bool has_markers = !step_threads.empty();
  std::vector<Candidate> candidates;
  bool has_step = false;
  bool has_step_dataload = false;
  for (const trace::Annotation& annotation : trace.annotations) {
    if (annotation.on_gpu || !has_thread(annotation.thread)) continue;
    std::string phase;
    const Source source = SourceOf(trace.Name(annotation.name), &phase);
    if (source == Source::kNone) continue;
    has_step |= source == Source::kStep;
    has_step_dataload |= source == Source::kStep && phase == "dataload";
    if (!has_markers && source == Source::kStep) step_threads.insert(annotation.thread);
    candidates.push_back({{annotation.start_ns, annotation.start_ns + annotation.duration_ns, 0},
                          source,
                          phase,
                          annotation.thread});
  }
  for (Candidate& candidate : candidates) {
    if (has_step && candidate.source == Source::kHeuristic) continue;
    if (candidate.source == Source::kLoader &&
        (has_step_dataload ||
         (!step_threads.empty() && step_threads.count(candidate.thread) == 0))) {
      continue;
    }
    candidate.span.phase = PhaseIndex(candidate.phase);
    spans_.push_back(candidate.span);
  }
  std::stable_sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  Flatten();
}

int PhaseMap::PhaseIndex(const std::string& name) {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it != names_.end()) return static_cast<int>(it - names_.begin());
  names_.push_back(name);
  return static_cast<int>(names_.size()) - 1;
}

void PhaseMap::Flatten() {
  std::vector<Span> open;
  int64_t cursor = 0;
  const auto emit = [&](int64_t until, int phase) {
    if (until > cursor) segments_.push_back({cursor, until, phase});
    cursor = std::max(cursor, until);
  };
  const auto close_until = [&](int64_t time) {
    while (!open.empty() && open.back().end_ns <= time) {
      emit(open.back().end_ns, open.back().phase);
      open.pop_back();
    }
  };
  for (const Span& span : spans_) {
    close_until(span.start_ns);
    if (!open.empty()) emit(span.start_ns, open.back().phase);
    cursor = span.start_ns;
    open.push_back(span);
  }
  while (!open.empty()) {
    emit(open.back().end_ns, open.back().phase);
    open.pop_back();
  }
}

int PhaseMap::Find(int64_t time_ns) const {
  const auto holds = [&](size_t i) {
    return segments_[i].start_ns <= time_ns && time_ns < segments_[i].end_ns;
  };
  if (segments_.empty()) return kUnphased;
  if (holds(hint_)) return segments_[hint_].phase;
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), time_ns,
                       [](int64_t time, const Span& segment) { return time < segment.start_ns; });
  if (after == segments_.begin()) return kUnphased;
  const size_t i = static_cast<size_t>(after - segments_.begin()) - 1;
  if (!holds(i)) return kUnphased;
  hint_ = i;
  return segments_[i].phase;
}

std::vector<PhaseMap::Wall> PhaseMap::WallBetween(int64_t start_ns, int64_t end_ns) const {
  std::vector<Wall> walls(names_.size());
  for (const Span& segment : segments_) {
    const int64_t from = std::max(segment.start_ns, start_ns);
    const int64_t until = std::min(segment.end_ns, end_ns);
    if (until > from) walls[static_cast<size_t>(segment.phase)].time_ns += until - from;
  }
  for (const Span& span : spans_) {
    if (span.start_ns >= start_ns && span.start_ns < end_ns) {
      ++walls[static_cast<size_t>(span.phase)].spans;
    }
  }
  return walls;
}

}  // namespace libreyolo::analysis
