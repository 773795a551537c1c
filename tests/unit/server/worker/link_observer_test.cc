#include "server/worker/link_observer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <utility>
#include <vector>

#include "server/worker_link/frame.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using worker_link::Progress;
using worker_link::WorkerMessage;

// Stands still until it is moved.
class ManualClock : public Clock {
 public:
  absl::Duration Monotonic() const override { return now; }
  absl::Time Wall() const override { return absl::UnixEpoch() + now; }
  absl::Duration now = absl::Seconds(100);
};

class LinkObserverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    daemon_.Reset(ends[0]);
    channel_.emplace(UniqueFd(ends[1]));
  }
  // Blocks until there is one.
  WorkerMessage Next() {
    for (;;) {
      auto payload = decoder_.Next();
      EXPECT_OK(payload);
      if (payload->has_value()) return *worker_link::DecodeWorkerMessage(**payload);
      char bytes[512];
      const ssize_t n = recv(daemon_.get(), bytes, sizeof bytes, 0);
      EXPECT_GT(n, 0);
      if (n <= 0) return worker_link::Heartbeat{};
      decoder_.Feed(absl::string_view(bytes, static_cast<size_t>(n)));
    }
  }
  // What progress is sent of an iteration every `step` of a stage.
  std::vector<int64_t> SentOf(const char* stage, int total, absl::Duration step) {
    LinkObserver observer(*channel_, clock_, {});
    for (int i = 1; i <= total; ++i) {
      observer.OnProgress(stage, i, total);
      clock_.now += step;
    }
    std::vector<int64_t> sent;
    do {
      const auto progress = std::get<Progress>(Next());
      EXPECT_EQ(progress.stage, stage);
      EXPECT_EQ(progress.total, total);
      sent.push_back(progress.done);
    } while (sent.back() != total);
    return sent;
  }

  ManualClock clock_;
  UniqueFd daemon_;
  std::optional<worker_link::WorkerChannel> channel_;
  worker_link::FrameDecoder decoder_;
};

TEST_F(LinkObserverTest, WarmUpReportsTenTimesASecond) {
  EXPECT_EQ(SentOf("warm-up", 12, absl::Milliseconds(25)), (std::vector<int64_t>{1, 5, 9, 12}));
}

TEST_F(LinkObserverTest, MeasuringReportsTwiceASecond) {
  EXPECT_EQ(SentOf("measure", 12, absl::Milliseconds(125)), (std::vector<int64_t>{1, 5, 9, 12}));
}

TEST_F(LinkObserverTest, ANewStageIsReportedAtOnce) {
  LinkObserver observer(*channel_, clock_, {});
  observer.OnProgress("warm-up", 1, 5);
  observer.OnProgress("measure", 1, 5);
  EXPECT_EQ(std::get<Progress>(Next()).stage, "warm-up");
  EXPECT_EQ(std::get<Progress>(Next()).stage, "measure");
}

TEST_F(LinkObserverTest, StagesCarryTheirDetail) {
  LinkObserver observer(*channel_, clock_, {});
  observer.OnStage(worker_link::WorkerStage::kMeasuring, "stages");
  const auto stage = std::get<worker_link::StageBegan>(Next());
  EXPECT_EQ(stage.stage, worker_link::WorkerStage::kMeasuring);
  EXPECT_EQ(stage.detail, "stages");
}

TEST_F(LinkObserverTest, ASilentWorkerBeats) {
  LinkObserver observer(*channel_, clock_, {.heartbeat_interval = absl::Milliseconds(1)});
  EXPECT_TRUE(std::holds_alternative<worker_link::Heartbeat>(Next()));
  EXPECT_TRUE(std::holds_alternative<worker_link::Heartbeat>(Next()));
}

TEST_F(LinkObserverTest, CancelIsRemembered) {
  LinkObserver observer(*channel_, clock_, {});
  EXPECT_FALSE(observer.IsCancelled());
  observer.Cancel();
  EXPECT_TRUE(observer.IsCancelled());
}

TEST_F(LinkObserverTest, ADeadLinkIsNoErrorHere) {
  LinkObserver observer(*channel_, clock_, {});
  daemon_.Reset();
  observer.OnProgress("warm-up", 1, 2);
  observer.OnStage(worker_link::WorkerStage::kMeasuring, "");
}

}  // namespace
}  // namespace libreyolo::worker
