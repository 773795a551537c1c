// What a measurement, or the summary file beside a foreign trace, says about a run: the part of a
// profile that no trace holds. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/analysis/profile.h"
#include "common/job/measurement.h"
#include "common/json/json_value.h"

namespace libreyolo::analysis {

struct ProfileSources {
  bool inference = false;
  std::optional<std::string> model;
  JsonValue config{JsonValue::Object{}};
  std::optional<double> step_ms;
  std::optional<double> img_per_s;
  std::optional<double> dataload_ms;
  std::optional<double> dataload_frac;
  std::vector<std::pair<std::string, double>> wall_ms;  // host time per phase, in order
  std::optional<Latency> latency;
  std::optional<std::vector<std::pair<std::string, double>>> stages_ms;
  std::optional<double> peak_vram_mb;
  std::optional<std::string> bound;  // as the peer stored it
};

ProfileSources SourcesOf(const job::Measurement& measurement);

// Members of the wrong type count as absent: the file is found by its name only.
ProfileSources SourcesOf(const JsonValue& summary);

}  // namespace libreyolo::analysis
