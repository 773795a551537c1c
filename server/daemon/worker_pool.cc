#include "server/daemon/worker_pool.h"

#include <pthread.h>
#include <sched.h>

#include <optional>
#include <utility>

namespace libreyolo::daemon {

WorkerPool::WorkerPool(int thread_count, int max_of_one) : normal_(max_of_one) {
  for (int i = 0; i < thread_count; ++i) threads_.emplace_back([this] { Drain(normal_); });
  threads_.emplace_back([this] {
    // An unprivileged thread may enter SCHED_IDLE but not leave it: hence a thread of its own.
    const sched_param none{};
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    Drain(idle_);
  });
}

WorkerPool::~WorkerPool() {
  for (Queue* queue : {&normal_, &idle_}) {
    const std::lock_guard<std::mutex> lock(queue->mu);
    queue->closing = true;
    queue->ready.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::SubmitFor(const std::string& principal, std::function<void()> work) {
  Queue& queue = quiet_ ? idle_ : normal_;
  const std::lock_guard<std::mutex> lock(queue.mu);
  queue.work.Push(principal, std::move(work));
  // No thread wakes for what must wait for its principal's other work: the one that does that work
  // goes on with it.
  if (queue.work.HasTurn()) queue.ready.notify_one();
}

void WorkerPool::Drain(Queue& queue) {
  std::unique_lock<std::mutex> lock(queue.mu);
  for (;;) {
    queue.ready.wait(lock, [&] { return queue.closing || queue.work.HasTurn(); });
    std::optional<FairQueue::Turn> turn = queue.work.Take();
    if (!turn.has_value()) return;
    lock.unlock();
    turn->work();
    turn->work = nullptr;  // what it holds may take its time to go, or submit more
    lock.lock();
    queue.work.End(turn->owner);
  }
}

}  // namespace libreyolo::daemon
