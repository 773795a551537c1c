#include "server/worker/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/data/augment_draws.h"

namespace libreyolo::data {
namespace {

// Lends buffers of one size and takes them back when the last user lets go. Outlives the loader as
// long as a batch does.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  BufferPool(size_t float_count, BufferAllocator allocate)
      : float_count_(float_count), allocate_(std::move(allocate)) {}

  FloatBuffer Lend() {
    FloatBuffer memory;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        memory = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (memory == nullptr) {
      memory = allocate_ ? allocate_(float_count_) : FloatBuffer(new float[float_count_]);
    }
    float* const floats = memory.get();
    return FloatBuffer(floats, [pool = shared_from_this(), memory](float*) mutable {
      const std::lock_guard<std::mutex> lock(pool->mutex_);
      pool->free_.push_back(std::move(memory));
    });
  }

 private:
  const size_t float_count_;
  const BufferAllocator allocate_;
  std::mutex mutex_;
  std::vector<FloatBuffer> free_;  // guarded by mutex_
};

// Example `position` of epoch `epoch` is one picture and one seed.
uint64_t ItemSeed(uint64_t seed, int64_t epoch, int64_t position) {
  return seed + static_cast<uint64_t>(epoch) * 0xD1342543DE82EF95ULL +
         static_cast<uint64_t>(position) * 0x9E3779B97F4A7C15ULL;
}

std::vector<uint32_t> Permutation(size_t count, uint64_t seed, int64_t epoch) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  SeededDraws draws(~ItemSeed(seed, epoch, 0));
  for (size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(draws.Integer(0, static_cast<int>(i) - 1))]);
  }
  return order;
}

}  // namespace

struct DataLoader::State {
  State(const Dataset& the_dataset, const LoaderOptions& the_options);

  // A batch in work or waiting to be fetched.
  struct Pending {
    Batch batch;
    int remaining = 0;
    absl::Status status;
  };
  // One example: where it comes from and where it goes.
  struct Task {
    size_t image_index = 0;
    uint64_t seed = 0;
    float* images = nullptr;
    float* targets = nullptr;
    int64_t batch_index = 0;
  };

  Task Take();                                                // mutex_ is held
  absl::Status Run(const Task& task, TrainItemMaker& maker);  // without mutex_
  void Finish(const Task& task, const absl::Status& status);  // mutex_ is held
  Batch NewBatch();
  void Work();

  const Dataset& dataset;
  const LoaderOptions options;
  const int64_t batches_per_epoch;
  const size_t image_floats;
  std::shared_ptr<BufferPool> image_pool;
  std::shared_ptr<BufferPool> target_pool;
  BrokenImages broken;

  std::mutex mutex_;
  std::condition_variable work_or_stop_;  // for workers
  std::condition_variable batch_done_;    // for Next()
  // All guarded by mutex_ from here on.
  bool is_stopping_ = false;
  int64_t next_item_ = 0;        // counted through all epochs
  int64_t fetched_batches_ = 0;  // by Next(); the index of pending_.front()
  std::deque<Pending> pending_;
  int64_t order_epoch_ = -1;  // whose order `order_` holds
  std::vector<uint32_t> order_;

  std::vector<std::thread> workers;
  std::unique_ptr<TrainItemMaker> own_maker;  // without workers
};

DataLoader::State::State(const Dataset& the_dataset, const LoaderOptions& the_options)
    : dataset(the_dataset),
      options(the_options),
      batches_per_epoch(static_cast<int64_t>(the_dataset.items.size()) / the_options.batch_size),
      image_floats(size_t{3} * the_dataset.input_width * the_dataset.input_height),
      image_pool(std::make_shared<BufferPool>(image_floats * the_options.batch_size,
                                              the_options.allocate)),
      target_pool(std::make_shared<BufferPool>(
          size_t{kMaxTargets} * kTargetFields * the_options.batch_size, the_options.allocate)),
      broken(the_dataset.items.size()) {}

Batch DataLoader::State::NewBatch() {
  return {options.batch_size, image_pool->Lend(), target_pool->Lend()};
}

DataLoader::State::Task DataLoader::State::Take() {
  const int64_t items_per_epoch = batches_per_epoch * options.batch_size;
  const int64_t epoch = next_item_ / items_per_epoch;
  const int64_t position = next_item_ % items_per_epoch;
  if (epoch != order_epoch_) {
    order_ = Permutation(dataset.items.size(), options.seed, epoch);
    order_epoch_ = epoch;
  }
  Task task;
  task.image_index = order_[static_cast<size_t>(position)];
  task.seed = ItemSeed(options.seed, epoch, position);
  task.batch_index = next_item_ / options.batch_size;
  const size_t slot = static_cast<size_t>(next_item_ % options.batch_size);
  if (slot == 0) pending_.push_back({NewBatch(), options.batch_size, absl::OkStatus()});
  const Batch& batch = pending_[static_cast<size_t>(task.batch_index - fetched_batches_)].batch;
  task.images = batch.images.get() + slot * image_floats;
  task.targets = batch.targets.get() + slot * kMaxTargets * kTargetFields;
  ++next_item_;
  return task;
}

absl::Status DataLoader::State::Run(const Task& task, TrainItemMaker& maker) {
  if (options.before_item) options.before_item();
  SeededDraws draws(task.seed);
  return maker.Make(task.image_index, draws, task.images, task.targets);
}

void DataLoader::State::Finish(const Task& task, const absl::Status& status) {
  Pending& pending = pending_[static_cast<size_t>(task.batch_index - fetched_batches_)];
  if (pending.status.ok()) pending.status = status;
  if (--pending.remaining == 0) batch_done_.notify_one();
}

void DataLoader::State::Work() {
  TrainItemMaker maker(dataset, options.augment, broken);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    work_or_stop_.wait(lock, [this] {
      const int64_t batch = next_item_ / options.batch_size;
      return is_stopping_ || batch < fetched_batches_ + options.prefetch_batch_count;
    });
    if (is_stopping_) return;
    const Task task = Take();
    lock.unlock();
    const absl::Status status = Run(task, maker);
    lock.lock();
    Finish(task, status);
  }
}

DataLoader::DataLoader(const Dataset& dataset, const LoaderOptions& options)
    : state_(std::make_unique<State>(dataset, options)) {
  LY_CHECK(options.batch_size > 0 && options.worker_count >= 0 && options.prefetch_batch_count > 0);
  if (state_->batches_per_epoch == 0) return;
  if (options.worker_count == 0) {
    state_->own_maker = std::make_unique<TrainItemMaker>(dataset, options.augment, state_->broken);
  }
  for (int i = 0; i < options.worker_count; ++i) {
    state_->workers.emplace_back([state = state_.get()] { state->Work(); });
  }
}

DataLoader::~DataLoader() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex_);
    state_->is_stopping_ = true;
  }
  state_->work_or_stop_.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int64_t DataLoader::batches_per_epoch() const { return state_->batches_per_epoch; }

absl::StatusOr<Batch> DataLoader::Next() {
  State& state = *state_;
  if (state.batches_per_epoch == 0) {
    return MakeError(reason::kWindowNotFilled,
                     absl::StrCat("the dataset holds ", state.dataset.items.size(),
                                  " images, a batch needs ", state.options.batch_size));
  }
  std::unique_lock<std::mutex> lock(state.mutex_);
  if (state.own_maker != nullptr) {
    for (int i = 0; i < state.options.batch_size; ++i) {
      const State::Task task = state.Take();
      state.Finish(task, state.Run(task, *state.own_maker));
    }
  } else {
    state.batch_done_.wait(lock, [&state] {
      return !state.pending_.empty() && state.pending_.front().remaining == 0;
    });
  }
  State::Pending done = std::move(state.pending_.front());
  state.pending_.pop_front();
  ++state.fetched_batches_;
  lock.unlock();
  state.work_or_stop_.notify_all();
  if (!done.status.ok()) return done.status;
  return std::move(done.batch);
}

const BrokenImages& DataLoader::broken_images() const { return state_->broken; }

}  // namespace libreyolo::data
