// Records every op that LibTorch runs, on all threads, as fixed-size records: no allocation, no
// lock and no system call per op. It observes through at::RecordFunction, the hook of LibTorch's
// own profiler, which must stay off meanwhile.
//
//   OpRecorder recorder({.clock = ChooseClock()});
//   LY_RETURN_IF_ERROR(recorder.Start());
//   ... run ops ...
//   const OpRecording recording = recorder.Stop();
//
// While no recorder runs, no callback is installed and ops run at their own speed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/worker/capture/capture_clock.h"

namespace libreyolo::worker {

enum class OpScope : uint8_t {
  kOp,        // a dispatched operator, or an engine function such as evaluate_function
  kBackward,  // the body of an autograd node
  kUser,      // a range that code opened by name
};

struct OpRecord {
  uint64_t start_ticks;
  uint64_t end_ticks;       // 0: the op had not ended when the recording stopped
  int64_t sequence;         // autograd's number, -1 when there is none
  uint64_t forward_thread;  // kBackward: LibTorch's number of the thread that ran the forward op
  uint32_t name_id;         // index into OpRecording::names
  uint16_t depth;           // ops around this one on its thread
  OpScope scope;
};
static_assert(sizeof(OpRecord) == 40);

// The records of one thread in the order in which they started: an op precedes what it calls.
struct ThreadOps {
  int64_t os_thread_id = 0;      // gettid()
  uint64_t torch_thread_id = 0;  // what OpRecord::forward_thread refers to
  std::string thread_name;       // as the system knows it
  std::vector<OpRecord> ops;
};

struct OpRecording {
  std::vector<ThreadOps> threads;
  std::vector<std::string> names;
  int64_t record_count = 0;
  // Ops that found no room. A thread's nesting stays right all the same.
  int64_t dropped_count = 0;
  ClockPair begin;
  ClockPair end;
};

class OpRecorder {
 public:
  struct Options {
    ClockKind clock = ClockKind::kClockGettime;
    // Over all threads; more are dropped and counted. 40 bytes each, of which only what is used
    // takes memory.
    int64_t max_records = int64_t{1} << 20;
    // Memory for so many records is touched in Start(), so that recording them causes no page
    // faults.
    int64_t expected_records = int64_t{1} << 16;
  };

  explicit OpRecorder(const Options& options);
  ~OpRecorder();  // stops without a result when it still runs
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;

  // FAILED_PRECONDITION while another recorder of the process runs: LibTorch's callbacks are plain
  // functions, so there is one at a time. RESOURCE_EXHAUSTED when there is no memory for the
  // records. No op may run on any thread meanwhile, nor during Stop().
  absl::Status Start();
  // Only after a successful Start().
  OpRecording Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace libreyolo::worker
