// profile.json: ours and the Python peer's. Pure.
//
// What the peer writes is read and written back byte for byte. Our own members stand behind the
// peer's; their names and meaning are documented in docs/profile-format.md.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

JsonValue ProfileToJson(const Profile& profile);

// The file's bytes: one line, no newline at its end.
std::string WriteProfileJson(const Profile& profile);

// TRACE_UNPARSABLE names the member that is missing or of the wrong type;
// TRACE_SCHEMA_UNSUPPORTED for a later version of the schema.
absl::StatusOr<Profile> ProfileFromJson(const JsonValue& json);

// The rows' JSON, as in the file; the readers' documents hold the same.
JsonValue RowToJson(const KernelRow& row);
JsonValue RowToJson(const OpRow& row);
JsonValue RowToJson(const PhaseRow& row);
JsonValue RowToJson(const CategoryRow& row);
JsonValue LatencyToJson(const Latency& latency);
JsonValue WindowToJson(const Profile& profile);
JsonValue FindingsToJson(const std::vector<job::Finding>& findings);
JsonValue PhasesGpuToJson(const Profile& profile);

}  // namespace libreyolo::analysis
