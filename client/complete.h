// What can stand where the cursor is on a command line, from the command table alone. What only a
// server knows (job ids, metric names) is named as a kind, for commands/completion.cc to ask for.
#pragma once

#include <string>
#include <vector>

namespace libreyolo::client {

struct Candidate {
  std::string word;
  std::string help;  // one line; may be empty
};

enum class LiveWords { kNone, kJobs, kTraces, kDevices, kMetrics, kPhases };

struct Completions {
  std::vector<Candidate> candidates;  // those that begin with what was typed
  bool files = false;                 // paths too; the shell knows them best
  LiveWords live = LiveWords::kNone;
  std::string current;  // what was typed of the word so far
  std::string trace;    // kMetrics, kPhases: the trace that the line names
  // Flags of every command that were typed before, to reach the same server with.
  std::vector<std::string> server_flags;
};

// `words` without the program's name; the last is the one that is being typed, and may be empty.
Completions Complete(const std::vector<std::string>& words);

}  // namespace libreyolo::client
