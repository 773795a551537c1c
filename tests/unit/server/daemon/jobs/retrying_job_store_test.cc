#include "server/daemon/jobs/retrying_job_store.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "tests/support/manual_runner.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/daemon/jobs/job_fakes.h"

namespace libreyolo::daemon {
namespace {

using libreyolo::testing::ManualRunner;

JobRecord Record(const std::string& id, v1::JobState state) {
  JobRecord record;
  record.job.set_id(id);
  record.job.set_principal("p");
  record.job.set_state(state);
  record.request_id = "r-" + id;
  return record;
}

v1::JobEvent Event(int64_t sequence, v1::JobState state) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_job()->set_state(state);
  return event;
}

class RetryingJobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const v1::JobEvent queued = Event(1, v1::JOB_STATE_QUEUED);
    ASSERT_OK(store_->Put(Record("a", v1::JOB_STATE_QUEUED), &queued));
  }
  void FillDisk() { below_.error = MakeError(reason::kStoreFailed, "disk full"); }
  absl::Status End(v1::JobState state, int64_t sequence) {
    const v1::JobEvent event = Event(sequence, state);
    return store_->Put(Record("a", state), &event);
  }
  std::vector<int64_t> Stored() {
    std::vector<int64_t> sequences;
    for (const v1::JobEvent& event : below_.events["a"]) sequences.push_back(event.sequence());
    return sequences;
  }

  MemoryJobStore below_;
  ManualRunner runner_;
  std::optional<RetryingJobStore> store_{std::in_place, below_, runner_};
};

TEST_F(RetryingJobStoreTest, AnEndIsStoredOnceThereIsRoomAgain) {
  FillDisk();
  EXPECT_FALSE(End(v1::JOB_STATE_MEASURING, 2).ok());
  EXPECT_FALSE(End(v1::JOB_STATE_FAILED, 3).ok());
  runner_.Advance(absl::Seconds(5));
  EXPECT_EQ(below_.records["a"].job.state(), v1::JOB_STATE_QUEUED);
  below_.error = absl::OkStatus();
  runner_.Advance(absl::Seconds(1));
  EXPECT_EQ(below_.records["a"].job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Stored(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(store_->kept_count(), 0U);
  EXPECT_EQ(runner_.timer_count(), 0U);
}

TEST_F(RetryingJobStoreTest, ReadersGetWhatIsKept) {
  FillDisk();
  EXPECT_FALSE(End(v1::JOB_STATE_SUCCEEDED, 2).ok());
  ASSERT_OK_AND_ASSIGN(const auto found, store_->Find("a"));
  EXPECT_EQ(found->job.state(), v1::JOB_STATE_SUCCEEDED);
  ASSERT_OK_AND_ASSIGN(const auto by_request, store_->FindByRequest("p", "r-a"));
  EXPECT_EQ(by_request->job.state(), v1::JOB_STATE_SUCCEEDED);
  JobQuery query;
  query.limit = 10;
  ASSERT_OK_AND_ASSIGN(const auto listed, store_->List(query));
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].job.state(), v1::JOB_STATE_SUCCEEDED);
  query.active_only = true;
  ASSERT_OK_AND_ASSIGN(const auto active, store_->List(query));
  EXPECT_TRUE(active.empty());
  ASSERT_OK_AND_ASSIGN(const auto events, store_->Events("a", 0));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].sequence(), 2);
}

TEST_F(RetryingJobStoreTest, TheNextChangeGoesBehindWhatIsKept) {
  FillDisk();
  EXPECT_FALSE(End(v1::JOB_STATE_MEASURING, 2).ok());
  below_.error = absl::OkStatus();
  ASSERT_OK(End(v1::JOB_STATE_SUCCEEDED, 3));
  EXPECT_EQ(Stored(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(below_.records["a"].job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(store_->kept_count(), 0U);
}

TEST_F(RetryingJobStoreTest, AJobThatWasNeverStoredIsRefusedForGood) {
  FillDisk();
  EXPECT_FALSE(store_->Put(Record("b", v1::JOB_STATE_QUEUED), nullptr).ok());
  below_.error = absl::OkStatus();
  runner_.Advance(absl::Seconds(5));
  EXPECT_EQ(below_.records.count("b"), 0U);
}

TEST_F(RetryingJobStoreTest, TheLastTryIsAtTheEndOfTheDaemon) {
  FillDisk();
  EXPECT_FALSE(End(v1::JOB_STATE_CANCELLED, 2).ok());
  below_.error = absl::OkStatus();
  store_.reset();
  EXPECT_EQ(below_.records["a"].job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(runner_.timer_count(), 0U);
}

}  // namespace
}  // namespace libreyolo::daemon
