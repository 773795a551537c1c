// What a finished inference measurement should be read with: each rule looks at the measurement
// alone. Pure.
#pragma once

#include <vector>

#include "common/job/measurement.h"

namespace libreyolo::worker {

// Codes, severities and when they appear:
//   IMGSZ_ROUNDED      info     the size asked for is no multiple of 32
//   RANDOM_WEIGHTS     info     detections mean nothing
//   THREADS_OVER_CPUS  suspect  more compute threads than CPUs or than the quota allows
//   FOREIGN_CPU_LOAD   suspect  others used over 10 % of the CPUs while latencies were taken
//   CPU_STEAL          suspect  the hypervisor took over 2 %
//   CLOCK_NOT_TSC      info     op records were stamped by system calls
//   RECORDS_DROPPED    suspect  the trace lacks ops
//   TRACE_CUT_SHORT    info     the traced window ended before its iterations: its time was up
// `ratios_meaningful` says that the window was long enough for the two load ratios.
std::vector<job::Finding> FindInMeasurement(const job::Measurement& measurement,
                                            bool ratios_meaningful, int traced_steps_wanted);

}  // namespace libreyolo::worker
