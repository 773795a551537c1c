// Parses blocks of events on several threads and gives their results back in order. Internal to
// the trace reader, and used by one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/trace/event_parser.h"

namespace libreyolo::trace {

class ParallelParser {
 public:
  explicit ParallelParser(int threads);
  ~ParallelParser();  // waits for the blocks in work
  ParallelParser(const ParallelParser&) = delete;
  ParallelParser& operator=(const ParallelParser&) = delete;

  // More blocks should be handed in before the next result is taken.
  bool wants_more() const { return jobs_.size() < limit_; }
  bool idle() const { return jobs_.empty(); }

  // Hands in the next block: the first `block_size` bytes of `span` are whole events, the rest is
  // what separates them from the next block.
  void Submit(absl::string_view span, size_t block_size);

  // Waits for the oldest block. When every byte of it was an event, adds its records to `lists`
  // with the names and threads of `parser`, forgets it and returns true. Otherwise returns false
  // and moves the text of this and of all later blocks, in order, to `rest`.
  bool TakeOldest(EventParser& parser, EventLists& lists, std::string& rest);

 private:
  struct Worker {
    EventParser parser;  // the worker thread's alone
    std::thread thread;
    // The reader's side: what the parser's ids mean, from the blocks taken so far, and the ids that
    // the reader gave them (kUnknownId until an event needs one).
    std::vector<std::string> raw_names;
    std::vector<Thread> threads;
    std::vector<NameId> name_ids;
    std::vector<ThreadId> thread_ids;
  };
  struct Job {
    std::unique_ptr<char[]> buffer;  // one byte, the span, padding
    size_t capacity = 0;             // for a span
    size_t span_size = 0;
    size_t block_size = 0;
    bool done = false;
    BlockResult result;
    EventLists lists;
    Worker* worker = nullptr;  // null when the block was never begun
    // What the worker's parser met for the first time in this block.
    std::vector<std::string> new_names;
    std::vector<Thread> new_threads;
    std::vector<RowName> row_names;

    void Clear();  // but keeps the memory
  };

  void Work(Worker& worker);
  static void Parse(Worker& worker, Job& job);
  static void LearnNames(Job& job);
  static void Merge(Job& job, EventParser& parser, EventLists& lists);

  const size_t limit_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::deque<std::shared_ptr<Job>> jobs_;    // in order; the reader's alone
  std::vector<std::shared_ptr<Job>> spare_;  // done with: their memory serves later blocks

  std::mutex mu_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<std::shared_ptr<Job>>
      queue_;          // not begun; shared: a job outlives either deque. By mu_
  bool stop_ = false;  // by mu_
};

}  // namespace libreyolo::trace
