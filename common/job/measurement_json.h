// A Measurement as JSON: the form in which it crosses the worker link and stands in a trace's
// metadata. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "common/job/measurement.h"
#include "common/json/json_value.h"

namespace libreyolo::job {

JsonValue MeasurementToJson(const Measurement& measurement);

// InvalidArgument names the first member that is missing or of the wrong type. Members that this
// version does not know are ignored.
absl::StatusOr<Measurement> MeasurementFromJson(const JsonValue& json);

}  // namespace libreyolo::job
