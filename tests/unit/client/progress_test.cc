#include "client/render/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class FakeClock : public Clock {
 public:
  absl::Duration Monotonic() const override { return now; }
  absl::Time Wall() const override { return absl::UnixEpoch() + now; }
  absl::Duration now = absl::Seconds(100);
};

v1::Job JobIn(v1::JobState state, const char* stage = "", int64_t done = 0, int64_t total = 0) {
  v1::Job job;
  job.set_state(state);
  job.mutable_progress()->set_stage(stage);
  job.mutable_progress()->set_done(done);
  job.mutable_progress()->set_total(total);
  return job;
}

class ProgressViewTest : public ::testing::Test {
 protected:
  std::ostringstream out_;
  FakeClock clock_;
};

TEST_F(ProgressViewTest, WithoutATerminalThereIsOneLinePerState) {
  ProgressView view(out_, ProgressStyle{}, clock_);
  v1::Job queued = JobIn(v1::JOB_STATE_QUEUED);
  queued.set_queue_position(2);
  queued.set_waiting_for("cpu is held by j1");
  view.Show(queued);
  view.Show(queued);
  view.Show(JobIn(v1::JOB_STATE_STARTING, "loading weights"));
  view.Show(JobIn(v1::JOB_STATE_WARMING_UP, "warm-up", 1, 20));
  view.Show(JobIn(v1::JOB_STATE_WARMING_UP, "warm-up", 2, 20));
  view.Show(JobIn(v1::JOB_STATE_MEASURING, "measure", 1, 100));
  view.Show(JobIn(v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(out_.str(),
            "queued, 2 jobs ahead: cpu is held by j1\nstarting\nwarming up\nmeasuring\n");
}

TEST_F(ProgressViewTest, TrialsAreTold) {
  ProgressView view(out_, ProgressStyle{}, clock_);
  v1::Job job = JobIn(v1::JOB_STATE_MEASURING);
  job.set_trial_count(3);
  view.Show(job);
  job.set_trial(1);
  view.Show(job);
  EXPECT_EQ(out_.str(), "trial 1/3  measuring\ntrial 2/3  measuring\n");
}

TEST_F(ProgressViewTest, OnATerminalOneLineIsRewrittenWithBarAndRate) {
  ProgressView view(out_, ProgressStyle{false, true, 80}, clock_);
  view.Show(JobIn(v1::JOB_STATE_MEASURING, "measure", 0, 100));
  clock_.now += absl::Seconds(2);
  view.Show(JobIn(v1::JOB_STATE_MEASURING, "measure", 50, 100));
  EXPECT_THAT(out_.str(), EndsWith("\r\x1b[2Kmeasure  [############............]  50/100  "
                                   "25.0 it/s"));
  view.Show(JobIn(v1::JOB_STATE_SUCCEEDED));
  EXPECT_THAT(out_.str(), EndsWith("\r\x1b[2K"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\n")));
}

TEST_F(ProgressViewTest, ANewStageBeginsANewRate) {
  ProgressView view(out_, ProgressStyle{false, true, 80}, clock_);
  view.Show(JobIn(v1::JOB_STATE_WARMING_UP, "warm-up", 20, 20));
  clock_.now += absl::Seconds(60);
  view.Show(JobIn(v1::JOB_STATE_MEASURING, "measure", 10, 100));
  EXPECT_THAT(out_.str(), EndsWith("10/100"));
  clock_.now += absl::Seconds(1);
  view.Show(JobIn(v1::JOB_STATE_MEASURING, "measure", 15, 100));
  EXPECT_THAT(out_.str(), EndsWith("15/100  5.0 it/s"));
}

TEST_F(ProgressViewTest, DownloadsCountBytes) {
  ProgressView view(out_, ProgressStyle{false, true, 100}, clock_);
  view.Show(JobIn(v1::JOB_STATE_STARTING, "downloading weights", 2'000'000, 8'000'000));
  EXPECT_THAT(out_.str(), EndsWith("2.0 MB of 8.0 MB"));
}

TEST_F(ProgressViewTest, TheLineNeverWraps) {
  ProgressView view(out_, ProgressStyle{false, true, 30}, clock_);
  view.Show(JobIn(v1::JOB_STATE_MEASURING, "measure", 50, 100));
  const std::string shown = out_.str().substr(std::string("\r\x1b[2K").size());
  EXPECT_LE(shown.size(), 29u);
}

TEST_F(ProgressViewTest, NotesStayAndSilenceIsSilent) {
  {
    ProgressView view(out_, ProgressStyle{false, true, 80}, clock_);
    view.ShowBytes("uploading weights", 1, 2);
    view.Note("connection lost");
  }
  EXPECT_THAT(out_.str(), EndsWith("\r\x1b[2Kconnection lost\n"));
  out_.str("");
  ProgressView silent(out_, ProgressStyle{true, true, 80}, clock_);
  silent.Show(JobIn(v1::JOB_STATE_MEASURING, "measure", 1, 2));
  silent.ShowBytes("uploading", 1, 2);
  silent.Note("connection lost");
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace libreyolo::client
