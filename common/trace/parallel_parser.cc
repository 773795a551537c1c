#include "common/trace/parallel_parser.h"

#include <cstring>
#include <utility>

namespace libreyolo::trace {
namespace {

constexpr uint32_t kUnknownId = UINT32_MAX;

// The reader's id for a worker's, looked up once.
template <typename Lookup>
uint32_t Translate(std::vector<uint32_t>& table, uint32_t id, const Lookup& lookup) {
  if (id >= table.size()) table.resize(id + 1, kUnknownId);
  if (table[id] == kUnknownId) table[id] = lookup();
  return table[id];
}

template <typename Record, typename Adjust>
void Append(std::vector<Record>& from, std::vector<Record>& to, const Adjust& adjust) {
  const size_t first = to.size();
  to.insert(to.end(), from.begin(), from.end());
  for (size_t i = first; i < to.size(); ++i) adjust(to[i]);
}

void AddCounts(const ReadCounts& from, ReadCounts& to) {
  to.events += from.events;
  to.other_events += from.other_events;
  to.invalid_times += from.invalid_times;
  to.negative_durations += from.negative_durations;
  to.repaired_names += from.repaired_names;
  to.bare_numbers += from.bare_numbers;
  to.replaced_bytes += from.replaced_bytes;
  to.loose_numbers += from.loose_numbers;
}

}  // namespace

ParallelParser::ParallelParser(int threads) : limit_(2 * static_cast<size_t>(threads)) {
  for (int i = 0; i < threads; ++i) {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
    worker.thread = std::thread([this, &worker] { Work(worker); });
  }
}

ParallelParser::~ParallelParser() {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
    queue_.clear();
  }
  work_.notify_all();
  for (const std::unique_ptr<Worker>& worker : workers_) worker->thread.join();
}

void ParallelParser::Submit(absl::string_view span, size_t block_size) {
  std::shared_ptr<Job> job;
  if (spare_.empty()) {
    job = std::make_shared<Job>();
  } else {
    job = std::move(spare_.back());
    spare_.pop_back();
    job->Clear();
  }
  if (job->capacity < span.size()) {
    job->capacity = span.size() + span.size() / 8;
    job->buffer.reset(new char[1 + job->capacity + EventParser::kPadding]);
  }
  std::memcpy(job->buffer.get() + 1, span.data(), span.size());
  std::memset(job->buffer.get() + 1 + span.size(), 0, EventParser::kPadding);
  job->span_size = span.size();
  job->block_size = block_size;
  jobs_.push_back(job);
  {
    const std::lock_guard<std::mutex> lock(mu_);
    queue_.push_back(std::move(job));
  }
  work_.notify_one();
}

void ParallelParser::Job::Clear() {
  done = false;
  worker = nullptr;
  result = {};
  lists.ops.clear();
  lists.kernels.clear();
  lists.copies.clear();
  lists.calls.clear();
  lists.annotations.clear();
  lists.counts = {};
  new_names.clear();
  new_threads.clear();
  row_names.clear();
}

void ParallelParser::Work(Worker& worker) {
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock<std::mutex> lock(mu_);
      work_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    Parse(worker, *job);
    {
      const std::lock_guard<std::mutex> lock(mu_);
      job->done = true;
    }
    done_.notify_one();
  }
}

void ParallelParser::Parse(Worker& worker, Job& job) {
  EventParser& parser = worker.parser;
  const size_t names = parser.names().names().size();
  const size_t threads = parser.threads().size();
  const size_t rows = parser.row_names().size();
  job.result = parser.Parse(job.buffer.get() + 1, job.block_size, job.lists);
  job.worker = &worker;
  for (size_t i = names; i < parser.names().names().size(); ++i) {
    job.new_names.push_back(parser.names().raw(static_cast<NameId>(i)));
  }
  job.new_threads.assign(parser.threads().begin() + static_cast<std::ptrdiff_t>(threads),
                         parser.threads().end());
  job.row_names.assign(parser.row_names().begin() + static_cast<std::ptrdiff_t>(rows),
                       parser.row_names().end());
}

bool ParallelParser::TakeOldest(EventParser& parser, EventLists& lists, std::string& rest) {
  const std::shared_ptr<Job> job = jobs_.front();
  {
    std::unique_lock<std::mutex> lock(mu_);
    done_.wait(lock, [&] { return job->done; });
  }
  if (job->result.outcome == BlockResult::Outcome::kWhole) {
    Merge(*job, parser, lists);
    jobs_.pop_front();
    spare_.push_back(job);
    return true;
  }
  {
    // Later blocks began where this one should have ended, so they tell nothing.
    std::unique_lock<std::mutex> lock(mu_);
    for (const std::shared_ptr<Job>& queued : queue_) queued->done = true;
    queue_.clear();
    done_.wait(lock, [&] {
      for (const std::shared_ptr<Job>& other : jobs_) {
        if (!other->done) return false;
      }
      return true;
    });
  }
  rest.clear();
  for (const std::shared_ptr<Job>& other : jobs_) {
    rest.append(other->buffer.get() + 1, other->span_size);
    LearnNames(*other);
  }
  jobs_.clear();
  return false;
}

// A worker takes its blocks in order and so do we: its ids go on where the last block's ended.
void ParallelParser::LearnNames(Job& job) {
  if (job.worker == nullptr) return;
  Worker& worker = *job.worker;
  for (std::string& raw : job.new_names) worker.raw_names.push_back(std::move(raw));
  for (Thread& thread : job.new_threads) worker.threads.push_back(std::move(thread));
}

void ParallelParser::Merge(Job& job, EventParser& parser, EventLists& lists) {
  LearnNames(job);
  Worker& worker = *job.worker;
  const auto name = [&](NameId& id) {
    id =
        Translate(worker.name_ids, id, [&] { return parser.names().Intern(worker.raw_names[id]); });
  };
  const auto id_of_thread = [&](ThreadId& id) {
    id = Translate(worker.thread_ids, id, [&] {
      return parser.InternThread(worker.threads[id].pid, worker.threads[id].tid);
    });
  };
  const auto both = [&](auto& record) {
    name(record.name);
    id_of_thread(record.thread);
  };
  Append(job.lists.ops, lists.ops, both);
  Append(job.lists.calls, lists.calls, both);
  Append(job.lists.annotations, lists.annotations, both);
  const auto name_and_row = [&](auto& record) {
    name(record.name);
    id_of_thread(record.row);
  };
  Append(job.lists.kernels, lists.kernels, name_and_row);
  Append(job.lists.copies, lists.copies, name_and_row);
  AddCounts(job.lists.counts, lists.counts);
  parser.AddRowNames(std::move(job.row_names));
}

}  // namespace libreyolo::trace
