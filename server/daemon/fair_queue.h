// Work that waits, kept by who asked for it. Turns go round: after one's piece of work the next
// one's is served, whoever came first; of one's own the oldest comes first. What one has queued
// costs another at most the piece of work that is under way.
//
//   FairQueue queue(1);
//   queue.Push("alice", read);
//   if (std::optional<FairQueue::Turn> turn = queue.Take()) {
//     turn->work();
//     queue.End(turn->owner);
//   }
//
// A push, a turn and its end take logarithmic time. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace libreyolo::daemon {

class FairQueue {
 public:
  struct Turn {
    std::string owner;
    std::function<void()> work;
  };

  // Of each owner at most `max_turns` turns are under way at once; 0: any number.
  explicit FairQueue(int max_turns) : max_turns_(max_turns) {}

  void Push(const std::string& owner, std::function<void()> work);
  // The next turn, which is under way until End(). Nothing when none waits, or when all that wait
  // belong to owners that have as many turns as they may.
  std::optional<Turn> Take();
  void End(const std::string& owner);

  // True when Take() gives a turn.
  bool HasTurn() const { return !ring_.empty(); }

 private:
  struct Owner {
    std::deque<std::function<void()>> waiting;
    int turns = 0;         // under way
    bool in_ring = false;  // exactly if something waits and one more turn is allowed
  };
  using Owners = std::map<std::string, Owner>;
  void Settle(Owners::iterator owner);

  const int max_turns_;
  Owners owners_;                      // with something that waits or is under way
  std::deque<Owners::iterator> ring_;  // in the order of turns
};

}  // namespace libreyolo::daemon
