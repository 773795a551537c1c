#include "server/daemon/fair_queue.h"

#include <utility>

#include "common/base/check.h"

namespace libreyolo::daemon {

void FairQueue::Push(const std::string& owner, std::function<void()> work) {
  const auto it = owners_.try_emplace(owner).first;
  it->second.waiting.push_back(std::move(work));
  Settle(it);
}

std::optional<FairQueue::Turn> FairQueue::Take() {
  if (ring_.empty()) return std::nullopt;
  const auto it = ring_.front();
  ring_.pop_front();
  Owner& owner = it->second;
  owner.in_ring = false;
  Turn turn{it->first, std::move(owner.waiting.front())};
  owner.waiting.pop_front();
  ++owner.turns;
  Settle(it);
  return turn;
}

void FairQueue::End(const std::string& owner) {
  const auto it = owners_.find(owner);
  LY_CHECK(it != owners_.end() && it->second.turns > 0) << "no turn of \"" << owner << "\"";
  --it->second.turns;
  Settle(it);
}

// Puts an owner that may have a turn at the ring's end, and forgets one that has nothing left.
void FairQueue::Settle(Owners::iterator it) {
  Owner& owner = it->second;
  if (owner.in_ring) return;
  if (owner.waiting.empty()) {
    if (owner.turns == 0) owners_.erase(it);
    return;
  }
  if (max_turns_ > 0 && owner.turns >= max_turns_) return;
  owner.in_ring = true;
  ring_.push_back(it);
}

}  // namespace libreyolo::daemon
