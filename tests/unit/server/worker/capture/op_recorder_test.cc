#include "server/worker/capture/op_recorder.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;

// A named range, as user code opens it. The text lives in the RecordFunction only.
class UserScope {
 public:
  explicit UserScope(const std::string& name) : guard_(at::RecordScope::USER_SCOPE) {
    if (guard_.isActive()) guard_.before(name);
  }

 private:
  at::RecordFunction guard_;
};

std::vector<std::string> NamesOf(const OpRecording& recording, const ThreadOps& thread) {
  std::vector<std::string> names;
  for (const OpRecord& op : thread.ops) names.push_back(recording.names[op.name_id]);
  return names;
}

const ThreadOps* FindThread(const OpRecording& recording, int64_t os_thread_id) {
  for (const ThreadOps& thread : recording.threads) {
    if (thread.os_thread_id == os_thread_id) return &thread;
  }
  return nullptr;
}

class OpRecorderTest : public ::testing::TestWithParam<ClockKind> {
 protected:
  void SetUp() override {
    if (GetParam() == ClockKind::kTsc && ChooseClock() != ClockKind::kTsc) {
      GTEST_SKIP() << "no trusted time stamp counter here";
    }
  }
  OpRecorder::Options Options() { return {.clock = GetParam()}; }
};

TEST_P(OpRecorderTest, RecordsNestedOpsInOrder) {
  OpRecorder recorder(Options());
  ASSERT_OK(recorder.Start());
  {
    UserScope outer("outer");
    { UserScope inner("inner"); }
    { UserScope second("second"); }
  }
  const OpRecording recording = recorder.Stop();

  ASSERT_EQ(recording.threads.size(), 1u);
  const ThreadOps& thread = recording.threads[0];
  EXPECT_EQ(thread.os_thread_id, gettid());
  ASSERT_THAT(NamesOf(recording, thread), ElementsAre("outer", "inner", "second"));
  EXPECT_EQ(recording.record_count, 3);
  EXPECT_EQ(recording.dropped_count, 0);
  const OpRecord& outer = thread.ops[0];
  for (size_t i : {1, 2}) {
    const OpRecord& inner = thread.ops[i];
    EXPECT_EQ(inner.depth, 1);
    EXPECT_EQ(inner.scope, OpScope::kUser);
    EXPECT_GE(inner.start_ticks, outer.start_ticks);
    EXPECT_GE(inner.end_ticks, inner.start_ticks);
    EXPECT_LE(inner.end_ticks, outer.end_ticks);
  }
  EXPECT_EQ(outer.depth, 0);
  EXPECT_LE(thread.ops[1].end_ticks, thread.ops[2].start_ticks);
  EXPECT_GE(outer.start_ticks, recording.begin.ticks);
  EXPECT_LE(outer.end_ticks, recording.end.ticks);
}

TEST_P(OpRecorderTest, SeesDispatchedOps) {
  const at::Tensor x = at::ones({1, 2, 8, 8});
  const at::Tensor w = at::ones({3, 2, 3, 3});
  OpRecorder recorder(Options());
  ASSERT_OK(recorder.Start());
  const at::Tensor y = at::conv2d(x, w);
  const OpRecording recording = recorder.Stop();
  EXPECT_EQ(y.size(1), 3);
  EXPECT_THAT(recording.names, Contains("aten::conv2d"));
  EXPECT_THAT(recording.names, Contains("aten::convolution"));
  const OpRecord& conv = recording.threads.at(0).ops.at(0);
  EXPECT_EQ(recording.names[conv.name_id], "aten::conv2d");
  EXPECT_EQ(conv.scope, OpScope::kOp);
}

TEST_P(OpRecorderTest, LinksBackwardNodesToTheirForwardThread) {
  const at::Tensor x = at::ones({4}).set_requires_grad(true);
  OpRecorder recorder(Options());
  ASSERT_OK(recorder.Start());
  const at::Tensor loss = x.exp().sum();
  loss.backward();
  const OpRecording recording = recorder.Stop();
  const ThreadOps* thread = FindThread(recording, gettid());
  ASSERT_NE(thread, nullptr);
  int64_t forward_sequence = -1;
  bool found = false;
  for (const OpRecord& op : thread->ops) {
    const std::string& name = recording.names[op.name_id];
    if (name == "aten::exp" && forward_sequence < 0) forward_sequence = op.sequence;
    if (name == "ExpBackward0") {
      found = true;
      EXPECT_EQ(op.scope, OpScope::kBackward);
      EXPECT_EQ(op.sequence, forward_sequence);
      EXPECT_EQ(op.forward_thread, thread->torch_thread_id);
    }
  }
  EXPECT_TRUE(found);
}

TEST_P(OpRecorderTest, TellsApartNamesThatReuseOneAddress) {
  OpRecorder recorder(Options());
  ASSERT_OK(recorder.Start());
  std::vector<std::string> want;
  for (int i = 0; i < 100; ++i) {
    want.push_back("scope " + std::to_string(i % 7));
    UserScope scope(want.back());
  }
  const OpRecording recording = recorder.Stop();
  EXPECT_EQ(NamesOf(recording, recording.threads.at(0)), want);
  EXPECT_EQ(recording.names.size(), 7u);
}

TEST_P(OpRecorderTest, KeepsThreadsApart) {
  OpRecorder recorder(Options());
  ASSERT_OK(recorder.Start());
  int64_t ids[2] = {};
  const auto work = [&ids](int index) {
    ids[index] = gettid();
    for (int i = 0; i < 3000; ++i) UserScope scope("thread " + std::to_string(index));
  };
  std::thread first(work, 0);
  std::thread second(work, 1);
  first.join();
  second.join();
  { UserScope scope("main"); }
  const OpRecording recording = recorder.Stop();
  EXPECT_EQ(recording.record_count, 6001);
  for (int index : {0, 1}) {
    const ThreadOps* thread = FindThread(recording, ids[index]);
    ASSERT_NE(thread, nullptr);
    ASSERT_EQ(thread->ops.size(), 3000u);
    uint64_t last_end = 0;
    for (const OpRecord& op : thread->ops) {
      EXPECT_EQ(recording.names[op.name_id], "thread " + std::to_string(index));
      EXPECT_EQ(op.depth, 0);
      EXPECT_GE(op.start_ticks, last_end);
      EXPECT_GE(op.end_ticks, op.start_ticks);
      last_end = op.end_ticks;
    }
  }
}

TEST_P(OpRecorderTest, CountsWhatFindsNoRoomAndStaysNested) {
  OpRecorder::Options options = Options();
  options.max_records = 1024;
  OpRecorder recorder(options);
  ASSERT_OK(recorder.Start());
  {
    UserScope outer("outer");
    for (int i = 0; i < 1500; ++i) UserScope scope("inner");
  }
  const OpRecording recording = recorder.Stop();
  EXPECT_EQ(recording.record_count, 1024);
  EXPECT_EQ(recording.dropped_count, 1501 - 1024);
  // The outer scope ended after the pool ran dry, yet its end was noted at its own record.
  const ThreadOps& thread = recording.threads.at(0);
  EXPECT_GE(thread.ops.front().end_ticks, thread.ops.back().end_ticks);
  for (const OpRecord& op : thread.ops) EXPECT_NE(op.end_ticks, 0u);
}

TEST_P(OpRecorderTest, DeepNestingDoesNotOverrun) {
  OpRecorder recorder(Options());
  ASSERT_OK(recorder.Start());
  const std::function<void(int)> nest = [&nest](int levels) {
    UserScope scope("level");
    if (levels > 1) nest(levels - 1);
  };
  nest(700);  // more than a thread's stack of open ops
  { UserScope scope("after"); }
  const OpRecording recording = recorder.Stop();
  const ThreadOps& thread = recording.threads.at(0);
  ASSERT_EQ(thread.ops.size(), 701u);
  EXPECT_EQ(thread.ops[511].depth, 511);
  EXPECT_NE(thread.ops[511].end_ticks, 0u);
  EXPECT_EQ(thread.ops[700].depth, 0);
  EXPECT_NE(thread.ops[700].end_ticks, 0u);
}

TEST_P(OpRecorderTest, AnEarlierRecordingLeavesNothingBehind) {
  for (int round = 0; round < 3; ++round) {
    OpRecorder recorder(Options());
    ASSERT_OK(recorder.Start());
    { UserScope scope("round " + std::to_string(round)); }
    const OpRecording recording = recorder.Stop();
    EXPECT_THAT(recording.names, ElementsAre("round " + std::to_string(round)));
    EXPECT_EQ(recording.record_count, 1);
  }
}

TEST_P(OpRecorderTest, ObservesOnlyWhileItRuns) {
  EXPECT_FALSE(at::hasGlobalCallbacks());
  OpRecorder recorder(Options());
  ASSERT_OK(recorder.Start());
  EXPECT_TRUE(at::hasGlobalCallbacks());
  recorder.Stop();
  EXPECT_FALSE(at::hasGlobalCallbacks());
  {
    OpRecorder forgotten(Options());
    ASSERT_OK(forgotten.Start());
  }
  EXPECT_FALSE(at::hasGlobalCallbacks());
}

TEST_P(OpRecorderTest, OneAtATime) {
  OpRecorder first(Options());
  OpRecorder second(Options());
  ASSERT_OK(first.Start());
  EXPECT_THAT(second.Start(), StatusIs(absl::StatusCode::kFailedPrecondition));
  first.Stop();
  ASSERT_OK(second.Start());
}

INSTANTIATE_TEST_SUITE_P(Clocks, OpRecorderTest,
                         ::testing::Values(ClockKind::kTsc, ClockKind::kClockGettime),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace libreyolo::worker
