#include "server/daemon/worker_pool.h"

#include <pthread.h>
#include <sched.h>

namespace libreyolo::daemon {

WorkerPool::WorkerPool(int thread_count) {
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

void WorkerPool::Submit(std::function<void()> work) {
  Queue& queue = quiet_ ? idle_ : normal_;
  const std::lock_guard<std::mutex> lock(queue.mu);
  queue.work.push_back(std::move(work));
  queue.ready.notify_one();
}

void WorkerPool::Drain(Queue& queue) {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock<std::mutex> lock(queue.mu);
      queue.ready.wait(lock, [&] { return queue.closing || !queue.work.empty(); });
      if (queue.work.empty()) return;
      work = std::move(queue.work.front());
      queue.work.pop_front();
    }
    work();
  }
}

}  // namespace libreyolo::daemon
