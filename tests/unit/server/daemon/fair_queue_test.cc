#include "server/daemon/fair_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/daemon/worker_pool.h"

namespace libreyolo::daemon {
namespace {

using Names = std::vector<std::string>;

class FairQueueTest : public ::testing::Test {
 protected:
  void Push(FairQueue& queue, const std::string& owner, const std::string& name) {
    queue.Push(owner, [this, name] { done_.push_back(name); });
  }
  // Begins the next turn and does its work. Its owner, or nothing.
  std::string Take(FairQueue& queue) {
    const bool has_turn = queue.HasTurn();
    const std::optional<FairQueue::Turn> turn = queue.Take();
    EXPECT_EQ(turn.has_value(), has_turn);
    if (!turn.has_value()) return "";
    turn->work();
    return turn->owner;
  }
  Names done_;
};

TEST_F(FairQueueTest, TurnsGoRoundAndOnesOwnKeepTheirOrder) {
  FairQueue queue(0);
  for (const char* name : {"a1", "a2", "a3", "a4"}) Push(queue, "alice", name);
  for (const char* name : {"b1", "b2"}) Push(queue, "bob", name);
  Push(queue, "carol", "c1");
  for (std::string owner = Take(queue); !owner.empty(); owner = Take(queue)) queue.End(owner);
  EXPECT_EQ(done_, (Names{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}));
}

TEST_F(FairQueueTest, WhoComesLateIsServedAfterOneTurnOfEachOther) {
  FairQueue queue(0);
  for (int i = 0; i < 100; ++i) Push(queue, "alice", "a");
  EXPECT_EQ(Take(queue), "alice");
  Push(queue, "bob", "b");
  EXPECT_EQ(Take(queue), "alice");  // was in the ring before him
  EXPECT_EQ(Take(queue), "bob");
  EXPECT_EQ(Take(queue), "alice");
}

TEST_F(FairQueueTest, NobodyHasMoreTurnsAtOnceThanTheCap) {
  FairQueue queue(2);
  for (const char* name : {"a1", "a2", "a3", "a4"}) Push(queue, "alice", name);
  EXPECT_EQ(Take(queue), "alice");
  EXPECT_EQ(Take(queue), "alice");
  EXPECT_EQ(Take(queue), "");
  Push(queue, "alice", "a5");
  EXPECT_FALSE(queue.HasTurn());
  Push(queue, "bob", "b1");
  EXPECT_EQ(Take(queue), "bob");
  EXPECT_EQ(Take(queue), "");
  queue.End("bob");
  EXPECT_FALSE(queue.HasTurn());  // his end is no turn of hers
  queue.End("alice");
  EXPECT_EQ(Take(queue), "alice");
  EXPECT_EQ(Take(queue), "");
  EXPECT_EQ(done_, (Names{"a1", "a2", "b1", "a3"}));
}

TEST_F(FairQueueTest, WhoWaitsForTheCapComesBackAtTheRingsEnd) {
  FairQueue queue(1);
  Push(queue, "alice", "a1");
  Push(queue, "alice", "a2");
  EXPECT_EQ(Take(queue), "alice");
  Push(queue, "bob", "b1");
  Push(queue, "carol", "c1");
  queue.End("alice");
  for (const char* owner : {"bob", "carol", "alice"}) {
    EXPECT_EQ(Take(queue), owner);
    queue.End(owner);
  }
  EXPECT_EQ(Take(queue), "");
}

TEST_F(FairQueueTest, WithoutACapOneMayHaveEveryTurn) {
  FairQueue queue(0);
  for (int i = 0; i < 5; ++i) Push(queue, "alice", "a");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Take(queue), "alice");
  EXPECT_EQ(Take(queue), "");
}

// Waits that end at once when all is well, and in a failed test when not.
template <typename T>
bool Comes(const std::shared_future<T>& future) {
  return future.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
}

TEST(WorkerPoolTest, OneUsersLongWorkLeavesAThreadToOthers) {
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  std::mutex mu;
  Names order;
  const auto note = [&](const char* name) {
    const std::lock_guard<std::mutex> lock(mu);
    order.push_back(name);
  };
  {
    WorkerPool pool(2, 1);
    for (const char* name : {"a1", "a2", "a3"}) {
      pool.SubmitFor("alice", [&, name] {
        EXPECT_TRUE(Comes(gate));
        note(name);
      });
    }
    // Without the cap both threads would stand at the gate that only this opens.
    pool.SubmitFor("bob", [&] {
      note("b1");
      open.set_value();
    });
  }  // finishes what was submitted
  EXPECT_EQ(order, (Names{"b1", "a1", "a2", "a3"}));
}

TEST(WorkerPoolTest, TurnsGoRoundOnTheOneThreadOfAQuietPool) {
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  Names order;  // of one thread
  {
    WorkerPool pool(2, 1);
    pool.SetQuiet(true);
    std::promise<void> begins;
    pool.SubmitFor("alice", [&] {
      begins.set_value();
      EXPECT_TRUE(Comes(gate));
    });
    EXPECT_TRUE(Comes(begins.get_future().share()));
    for (const char* name : {"a2", "a3"})
      pool.SubmitFor("alice", [&, name] { order.push_back(name); });
    pool.SubmitFor("bob", [&] { order.push_back("b1"); });
    pool.SubmitFor("carol", [&] { order.push_back("c1"); });
    open.set_value();
  }
  // Her second stood in the ring before bob came; her third waits for carol too.
  EXPECT_EQ(order, (Names{"a2", "b1", "c1", "a3"}));
}

TEST(WorkerPoolTest, WithoutACapOneUserHasAllThreads) {
  std::promise<void> second;
  const std::shared_future<void> came = second.get_future().share();
  WorkerPool pool(2);
  pool.SubmitFor("alice", [&] { EXPECT_TRUE(Comes(came)); });
  pool.SubmitFor("alice", [&] { second.set_value(); });
}

}  // namespace
}  // namespace libreyolo::daemon
