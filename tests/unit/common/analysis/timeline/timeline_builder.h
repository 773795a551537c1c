// Small traces for the timeline's tests.
#pragma once

#include <string>

#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

class TraceMaker {
 public:
  TraceMaker() { trace_.threads.push_back({"1", "1", "main", ""}); }

  trace::NameId Name(const std::string& text) {
    for (size_t i = 0; i < trace_.names.size(); ++i) {
      if (trace_.names[i] == text) return static_cast<trace::NameId>(i);
    }
    trace_.names.push_back(text);
    return static_cast<trace::NameId>(trace_.names.size() - 1);
  }
  TraceMaker& Op(const std::string& name, int64_t start_ns, int64_t end_ns,
                 trace::ThreadId thread = 0) {
    trace_.ops.push_back({start_ns, end_ns - start_ns, Name(name), thread});
    return *this;
  }
  TraceMaker& Launch(int64_t correlation, int64_t start_ns, int64_t end_ns) {
    trace_.calls.push_back({start_ns, end_ns - start_ns, correlation, Name("cudaLaunchKernel"), 0});
    return *this;
  }
  TraceMaker& Kernel(const std::string& name, int64_t correlation, int64_t start_ns, int64_t end_ns,
                     int32_t stream = 7, int32_t device = 0) {
    trace_.kernels.push_back(
        {start_ns, end_ns - start_ns, correlation, Name(name), device, stream, 0, false});
    return *this;
  }
  TraceMaker& Annotation(const std::string& name, int64_t start_ns, int64_t end_ns,
                         bool on_gpu = false) {
    trace_.annotations.push_back({start_ns, end_ns - start_ns, Name(name), 0, on_gpu});
    return *this;
  }
  TraceMaker& Step(int64_t number, int64_t start_ns, int64_t end_ns) {
    trace_.markers.push_back({start_ns, end_ns - start_ns, number, 0});
    return *this;
  }
  trace::RecordedTrace& trace() { return trace_; }

 private:
  trace::RecordedTrace trace_;
};

}  // namespace libreyolo::analysis
