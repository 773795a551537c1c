// What the trace reader does with the text of a block of events before and beside the parse. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace libreyolo::trace {

// Where in `text` the last event of a block ends that begins at its start: behind a "}" which is
// followed by a comma and a "{". Only a guess, as strings and arguments may hold the same; the
// block's parse shows whether it was right. 0 when there is none.
size_t GuessCut(absl::string_view text);

// The same, exactly: brackets are counted and strings passed over.
size_t ExactCut(absl::string_view text);

// Replaces raw control characters inside strings by spaces and invalid UTF-8 by "?", both in place;
// returns how many bytes. `text` starts outside of strings.
int64_t CleanText(char* text, size_t size);

// What is wrong with a list of events, and at which byte: the parser is fast and names only the
// block. Illegal escapes and bare words where a value may stand (inf, nan) are no faults here, as
// the parser mends or skips them.
struct TextFault {
  std::string message;
  size_t offset = 0;
  bool cut_short = false;  // the text ends inside the event that begins at `offset`
};

// `text` begins with an event, or with "]". Without a fault the message is empty.
TextFault FindTextFault(absl::string_view text);

}  // namespace libreyolo::trace
