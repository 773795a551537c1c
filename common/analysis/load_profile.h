// Opens whatever a reader was given: a profile.json or a trace, ours or others'. Safe to call from
// any thread. Errors are those of trace_reader.h, profile_json.h and build_profile.h, and
// ARGUMENT_CONFLICT for a window on a profile.json, which has no step markers left.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/analysis/profile.h"
#include "common/trace/trace_reader.h"

namespace libreyolo::analysis {

struct LoadOptions {
  std::optional<WindowRange> window;
  trace::ReadLimits limits;
  // What the trace is called in the profile that is built from it (its `trace`), and whose file
  // name tells whether a profile_summary.json belongs to it. Empty: the path.
  std::string shown_name;
  // Where the records go when it is a trace that was read; null: they are let go.
  std::optional<trace::RecordedTrace>* keep_trace = nullptr;
};

// A trace's profile_summary.json is looked for beside it.
absl::StatusOr<Profile> LoadProfile(const std::string& path, const LoadOptions& options = {});

// What is read of a summary at most.
inline constexpr int64_t kMaxSummaryBytes = int64_t{16} << 20;

// The same with the text of another file for the summary beside it.
absl::StatusOr<Profile> LoadProfileWithSummary(const std::string& path,
                                               absl::string_view sibling_summary,
                                               const LoadOptions& options = {});

// The same from memory; `sibling_summary` is the text of the file that lay beside it, or empty.
absl::StatusOr<Profile> LoadProfileFromBytes(absl::string_view bytes,
                                             absl::string_view sibling_summary,
                                             const LoadOptions& options = {});

// True when the text (unpacked) begins like a profile.json.
bool LooksLikeProfile(absl::string_view head);

// The CPU verdict in place of a stored "host / launch" on a profile without GPU work; the stored
// word stays in bound_stored. LoadProfile does this.
void CorrectCpuVerdict(Profile& profile);

}  // namespace libreyolo::analysis
