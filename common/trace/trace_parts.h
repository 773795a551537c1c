// Parts of a RecordedTrace that are known only from the header, or once all events are read.
// Internal to the trace reader. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/trace/event_parser.h"
#include "common/trace/name_table.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::trace {

// Takes in one member of the trace's object, `value` as written. TRACE_UNPARSABLE for damage in
// what we wrote ourselves; `offset` is the value's place.
absl::Status AddHeaderMember(absl::string_view key, absl::string_view value, int64_t max_bytes,
                             int64_t offset, RecordedTrace& trace);

// Splits the host's step markers from their copies on device rows, which some versions write under
// the host's category. Needs the trace's threads.
void SplitMarkers(const NameTable& names, EventLists& lists, RecordedTrace& trace);

// Tells devices apart that share a number: merged traces of several ranks move the rows of a
// rank's devices to other process ids and leave the number in the arguments as it was.
void SeparateDevices(EventLists& lists, const RecordedTrace& trace);

void NameThreads(const std::vector<RowName>& row_names, std::vector<Thread>& threads);

}  // namespace libreyolo::trace
