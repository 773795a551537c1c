#include "server/worker/capture/op_recorder.h"

#include <ATen/record_function.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/file.h"

namespace libreyolo::worker {
namespace {

// Threads take records from the common pool in blocks: the only thing they share while recording.
constexpr int64_t kBlockRecords = 1024;
constexpr size_t kMaxDepth = 512;

struct NameSlot {
  const char* seen = nullptr;   // the pointer LibTorch gave
  const char* owned = nullptr;  // our copy of what stood there
  uint32_t id = 0;
};

// What one thread writes; nobody else does until Stop().
struct ThreadBuffer {
  OpRecord* next = nullptr;
  OpRecord* block_end = nullptr;
  int64_t dropped = 0;
  size_t depth = 0;
  std::array<OpRecord*, kMaxDepth> open;  // null where the record was dropped
  std::array<NameSlot, 256> names;
  std::vector<std::pair<OpRecord*, OpRecord*>> full_blocks;
  OpRecord* block_begin = nullptr;
  int64_t os_thread_id = 0;
  uint64_t torch_thread_id = 0;
  std::string thread_name;
};

// An anonymous mapping, so that unused records cost address space only.
class RecordPool {
 public:
  RecordPool() = default;
  ~RecordPool() {
    if (records_ != nullptr) munmap(records_, bytes_);
  }
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  absl::Status Map(int64_t block_count, int64_t touched_records) {
    block_count_ = block_count;
    bytes_ = static_cast<size_t>(block_count * kBlockRecords) * sizeof(OpRecord);
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return MakeError(reason::kWorkerLimit,
                       absl::StrCat("no memory for records of operations, ", bytes_,
                                    " bytes: ", std::strerror(errno)),
                       {"fewer runs or steps", "the server's admin can raise --worker-memory"});
    }
    records_ = static_cast<OpRecord*>(memory);
    std::memset(memory, 0,
                std::min(bytes_, static_cast<size_t>(touched_records) * sizeof(OpRecord)));
    return absl::OkStatus();
  }
  // The next block, or null when there is none left. Any thread.
  OpRecord* Take() {
    const int64_t index = next_block_.fetch_add(1, std::memory_order_relaxed);
    return index < block_count_ ? records_ + index * kBlockRecords : nullptr;
  }

 private:
  OpRecord* records_ = nullptr;
  size_t bytes_ = 0;
  int64_t block_count_ = 0;
  std::atomic<int64_t> next_block_{0};
};

class ActiveRecording {
 public:
  explicit ActiveRecording(uint64_t generation) : generation_(generation) {}

  absl::Status MapPool(const OpRecorder::Options& options) {
    const int64_t blocks = (options.max_records + kBlockRecords - 1) / kBlockRecords;
    return pool_.Map(std::max<int64_t>(blocks, 1), options.expected_records);
  }

  uint64_t generation() const { return generation_; }

  // Called once for each thread, from its first op.
  ThreadBuffer* AddThread() {
    auto buffer = std::make_unique<ThreadBuffer>();
    buffer->os_thread_id = gettid();
    buffer->torch_thread_id = at::RecordFunction::currentThreadId();
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    buffer->thread_name = name;
    std::lock_guard lock(mu_);
    threads_.push_back(std::move(buffer));
    return threads_.back().get();
  }

  // The slow path of Intern: a name that the thread has not seen under this pointer.
  NameSlot AddName(const char* name) {
    std::lock_guard lock(mu_);
    const auto [entry, is_new] =
        name_ids_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(&entry->first);
    return {name, entry->first.c_str(), entry->second};
  }

  // A place for one more record of the thread, or null when the pool is empty.
  OpRecord* NewRecord(ThreadBuffer& thread) {
    if (thread.next == thread.block_end && !NewBlock(thread)) return nullptr;
    return thread.next++;
  }

  // Nothing records any more.
  OpRecording Collect();

 private:
  bool NewBlock(ThreadBuffer& thread) {
    OpRecord* const block = pool_.Take();
    if (block == nullptr) return false;
    if (thread.block_begin != nullptr) {
      thread.full_blocks.emplace_back(thread.block_begin, thread.block_end);
    }
    thread.block_begin = thread.next = block;
    thread.block_end = block + kBlockRecords;
    return true;
  }

  const uint64_t generation_;
  RecordPool pool_;
  std::mutex mu_;  // the two below; threads take it for their first op and for new names only
  std::vector<std::unique_ptr<ThreadBuffer>> threads_;
  std::unordered_map<std::string, uint32_t> name_ids_;
  std::vector<const std::string*> names_;
};

OpRecording ActiveRecording::Collect() {
  std::lock_guard lock(mu_);
  OpRecording recording;
  for (const std::string* name : names_) recording.names.push_back(*name);
  for (const auto& buffer : threads_) {
    ThreadOps thread;
    thread.os_thread_id = buffer->os_thread_id;
    thread.torch_thread_id = buffer->torch_thread_id;
    thread.thread_name = buffer->thread_name;
    for (const auto& [begin, end] : buffer->full_blocks) {
      thread.ops.insert(thread.ops.end(), begin, end);
    }
    thread.ops.insert(thread.ops.end(), buffer->block_begin, buffer->next);
    recording.record_count += static_cast<int64_t>(thread.ops.size());
    recording.dropped_count += buffer->dropped;
    recording.threads.push_back(std::move(thread));
  }
  return recording;
}

// LibTorch's callbacks carry no user data, so what they write to must be found from here. Set while
// a recorder runs; changes only while no op does.
std::atomic<ActiveRecording*> active_recording{nullptr};
std::atomic<uint64_t> last_generation{0};

// A thread's buffer, and the recording that it belongs to: a pointer from an earlier one is stale.
struct ThreadSlot {
  uint64_t generation = 0;
  ThreadBuffer* buffer = nullptr;
};
thread_local ThreadSlot thread_slot;

inline ThreadBuffer& CurrentThread(ActiveRecording& recording) {
  ThreadSlot& slot = thread_slot;
  if (slot.generation != recording.generation()) [[unlikely]] {
    slot = {recording.generation(), recording.AddThread()};
  }
  return *slot.buffer;
}

inline uint32_t Intern(ActiveRecording& recording, ThreadBuffer& thread, const char* name) {
  NameSlot& slot = thread.names[(reinterpret_cast<uintptr_t>(name) >> 4) & 255];
  // Names of user scopes and autograd nodes live inside the RecordFunction: their pointers are
  // reused for other names, so an equal pointer proves nothing.
  if (slot.seen != name || std::strcmp(slot.owned, name) != 0) slot = recording.AddName(name);
  return slot.id;
}

OpScope ToOpScope(at::RecordScope scope) {
  switch (scope) {
    case at::RecordScope::BACKWARD_FUNCTION:
      return OpScope::kBackward;
    case at::RecordScope::USER_SCOPE:
      return OpScope::kUser;
    default:
      return OpScope::kOp;
  }
}

template <ClockKind kClock>
std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& fn) {
  ActiveRecording& recording = *active_recording.load(std::memory_order_relaxed);
  ThreadBuffer& thread = CurrentThread(recording);
  OpRecord* const record = recording.NewRecord(thread);
  if (record != nullptr) {
    record->end_ticks = 0;
    record->sequence = fn.seqNr();
    record->forward_thread = fn.forwardThreadId();
    record->name_id = Intern(recording, thread, fn.name());
    record->depth = static_cast<uint16_t>(std::min<size_t>(thread.depth, UINT16_MAX));
    record->scope = ToOpScope(fn.scope());
  } else {
    ++thread.dropped;
  }
  if (thread.depth < kMaxDepth) thread.open[thread.depth] = record;
  ++thread.depth;
  // Last, so that what recording costs is not inside the op.
  if (record != nullptr) record->start_ticks = ReadTicks(kClock);
  return nullptr;
}

template <ClockKind kClock>
void OnEnd(const at::RecordFunction&, at::ObserverContext*) {
  const uint64_t now = ReadTicks(kClock);
  ActiveRecording* const recording = active_recording.load(std::memory_order_relaxed);
  if (recording == nullptr) return;  // outlived the recording
  ThreadBuffer& thread = CurrentThread(*recording);
  if (thread.depth == 0) return;  // began before the recording
  --thread.depth;
  if (thread.depth < kMaxDepth && thread.open[thread.depth] != nullptr) {
    thread.open[thread.depth]->end_ticks = now;
  }
}

at::RecordFunctionCallback MakeCallback(ClockKind clock) {
  const bool tsc = clock == ClockKind::kTsc;
  return at::RecordFunctionCallback(
             tsc ? &OnStart<ClockKind::kTsc> : &OnStart<ClockKind::kClockGettime>,
             tsc ? &OnEnd<ClockKind::kTsc> : &OnEnd<ClockKind::kClockGettime>)
      .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
               at::RecordScope::USER_SCOPE});
}

}  // namespace

struct OpRecorder::Impl {
  Options options;
  std::unique_ptr<ActiveRecording> recording;
  at::CallbackHandle handle = 0;
  ClockPair begin;

  void Detach() {
    at::removeCallback(handle);
    active_recording.store(nullptr);
  }
};

OpRecorder::OpRecorder(const Options& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
}

OpRecorder::~OpRecorder() {
  if (impl_->recording != nullptr) impl_->Detach();
}

absl::Status OpRecorder::Start() {
  LY_CHECK(impl_->recording == nullptr) << "Start called twice";
  auto recording = std::make_unique<ActiveRecording>(++last_generation);
  absl::Status mapped = recording->MapPool(impl_->options);
  if (!mapped.ok()) return mapped;
  ActiveRecording* none = nullptr;
  if (!active_recording.compare_exchange_strong(none, recording.get())) {
    return absl::FailedPreconditionError("another op recorder runs in this process");
  }
  impl_->recording = std::move(recording);
  impl_->begin = ReadClockPair(impl_->options.clock);
  impl_->handle = at::addGlobalCallback(MakeCallback(impl_->options.clock));
  return absl::OkStatus();
}

OpRecording OpRecorder::Stop() {
  LY_CHECK(impl_->recording != nullptr) << "Stop without Start";
  impl_->Detach();
  const ClockPair end = ReadClockPair(impl_->options.clock);
  OpRecording recording = impl_->recording->Collect();
  impl_->recording.reset();
  recording.begin = impl_->begin;
  recording.end = end;
  return recording;
}

}  // namespace libreyolo::worker
