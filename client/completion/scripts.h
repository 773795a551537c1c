// The completion scripts beside this file, as `libreyolo completion` prints them.
#pragma once

#include "absl/strings/string_view.h"

namespace libreyolo::client {

struct CompletionScript {
  absl::string_view shell;
  absl::string_view text;
};

extern const CompletionScript kCompletionScripts[3];

}  // namespace libreyolo::client
