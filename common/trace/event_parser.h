// Turns blocks of trace events into records. Internal to the trace reader.
//
// A parser keeps its names and threads over all its blocks, so that ids stay valid; one thread at a
// time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/trace/name_table.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::trace {

// The events of one or more blocks. Markers are annotations still: which of them are the host's is
// known at the end only.
struct EventLists {
  std::vector<OpRecord> ops;
  std::vector<KernelRecord> kernels;
  std::vector<CopyRecord> copies;
  std::vector<RuntimeCall> calls;
  std::vector<Annotation> annotations;
  ReadCounts counts;
};

// A name of a process or thread, from the trace's metadata events.
struct RowName {
  bool is_process = false;
  std::string pid;
  std::string tid;
  std::string name;
};

struct BlockResult {
  enum class Outcome {
    kWhole,      // every byte was an event of the list
    kListEnded,  // the list's "]" stands at `offset`
    kBadText,    // raw control characters or invalid UTF-8: CleanText, then try again
    kFault,      // at `offset`: `message`
  };
  Outcome outcome = Outcome::kWhole;
  size_t offset = 0;  // into the block
  std::string message;
  bool syntax =
      false;  // the JSON parser's word: its offset may be no better than the block's start
};

struct RawEvent;  // raw_event.h

class EventParser {
 public:
  // Readable bytes that must follow a block.
  static constexpr size_t kPadding = 128;

  EventParser();
  ~EventParser();
  EventParser(const EventParser&) = delete;
  EventParser& operator=(const EventParser&) = delete;

  // Appends the events in `text[0 .. size)` to `out`: complete events, separated by commas, up to
  // the block's end or the list's "]". `text[-1]` and `text[size]` are overwritten while this runs,
  // and restored. On kFault and kBadText `out` is as it was.
  BlockResult Parse(char* text, size_t size, EventLists& out);

  const NameTable& names() const { return names_; }
  NameTable& names() { return names_; }
  // As met: `name` and `process_name` are empty.
  std::vector<Thread>& threads() { return threads_; }
  const std::vector<RowName>& row_names() const { return row_names_; }

  // For records of other parsers: the id of the row that is written `pid` and `tid`, and row names.
  ThreadId InternThread(absl::string_view pid, absl::string_view tid);
  void AddRowNames(std::vector<RowName> names);

 private:
  struct Simdjson;

  BlockResult Run(char* text, size_t size, EventLists& out);
  const char* AddEvent(const RawEvent& event, EventLists& out);
  void AddRowName(const RawEvent& event);

  std::unique_ptr<Simdjson> simdjson_;
  NameTable names_;
  std::vector<Thread> threads_;
  std::vector<RowName> row_names_;
  absl::flat_hash_map<std::string, ThreadId> thread_ids_;  // "pid\ntid"
  // The rows of the last few events, as most neighbours share one.
  struct RecentThread {
    std::string pid;
    std::string tid;
    ThreadId id = 0;
    bool used = false;
  };
  static constexpr size_t kRecentThreads = 4;  // host, autograd, two streams
  RecentThread recent_[kRecentThreads];
  size_t next_recent_ = 0;
};

}  // namespace libreyolo::trace
