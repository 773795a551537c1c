// Calls that may never come back, such as NVML's with a driver in trouble.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace libreyolo::gpu {

// Runs one call at a time, each on a thread of its own. A call that is not back in time is left to
// itself; until it returns, the next ones fail at once, so that threads cannot pile up.
// Thread-safe.
template <typename T>
class CallWithDeadline {
 public:
  // `call` owns all that it touches: it may outlive this object.
  //   DeadlineExceeded  not back after `limit`, or an earlier call still is not
  absl::StatusOr<T> Run(std::function<absl::StatusOr<T>()> call, absl::Duration limit) {
    const std::shared_ptr<State> state = state_;
    const auto answer = std::make_shared<std::optional<absl::StatusOr<T>>>();
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(limit);
    std::unique_lock<std::mutex> lock(state->mu);
    // Another caller's call that is still in time is waited for.
    const auto my_turn = [&] { return !state->busy || state->late; };
    if (!state->changed.wait_until(lock, until, my_turn) || state->late) return Late();
    state->busy = true;
    std::thread([state, answer, call = std::move(call)] {
      absl::StatusOr<T> result = call();
      const std::lock_guard<std::mutex> done(state->mu);
      *answer = std::move(result);
      state->busy = state->late = false;
      state->changed.notify_all();
    }).detach();
    if (!state->changed.wait_until(lock, until, [&] { return answer->has_value(); })) {
      state->late = true;
      state->changed.notify_all();
      return Late();
    }
    return std::move(**answer);
  }

 private:
  struct State {
    std::mutex mu;
    std::condition_variable changed;
    bool busy = false;
    bool late = false;  // the call that runs has used up its time
  };
  static absl::Status Late() { return absl::DeadlineExceededError("no answer in time"); }

  // Shared with the thread of a call, which may outlive this object.
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace libreyolo::gpu
