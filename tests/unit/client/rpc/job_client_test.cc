#include "client/rpc/job_client.h"

#include <signal.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/client/rpc/client_place.h"
#include "tests/unit/client/rpc/fake_server.h"

namespace libreyolo::client {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const grpc::Status kGone(grpc::StatusCode::UNAVAILABLE, "gone");

class JobClientTest : public ::testing::Test {
 protected:
  JobClientTest() : fake_(client_.Path("run/server.sock")), server_(fake_.AsRemote()) {
    // What runs the tests may ignore it, and an ignored one stays ignored.
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    options_.on_event = [this](const v1::Job& job) {
      seen_.push_back(job.sequence());
      if (on_event_) on_event_(job);
    };
    options_.on_note = [this](const std::string& text) {
      notes_.push_back(text);
      if (on_note_) on_note_(text);
    };
  }
  absl::StatusOr<FollowResult> Follow() { return FollowJob(server_, "job1", options_); }

  ClientPlace client_;
  FakeServer fake_;
  Server server_;
  FollowOptions options_;
  std::function<void(const v1::Job&)> on_event_;
  std::function<void(const std::string&)> on_note_;
  std::vector<int64_t> seen_;
  std::vector<std::string> notes_;
};

TEST_F(JobClientTest, FollowsAJobToItsEnd) {
  fake_.jobs.Add(v1::JOB_STATE_QUEUED);
  on_event_ = [this](const v1::Job& job) {
    if (job.state() == v1::JOB_STATE_QUEUED) fake_.jobs.Add(v1::JOB_STATE_MEASURING);
    if (job.state() == v1::JOB_STATE_MEASURING) fake_.jobs.Add(v1::JOB_STATE_SUCCEEDED);
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(result.end, FollowEnd::kTerminal);
  EXPECT_FALSE(result.interrupted);
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3));
  EXPECT_THAT(notes_, ElementsAre());
}

TEST_F(JobClientTest, GoesOnWhereItWasAfterTheServerCameBack) {
  fake_.jobs.Add(v1::JOB_STATE_STARTING);
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [this](const v1::Job& job) {
    if (job.sequence() == 2) fake_.Stop();
  };
  on_note_ = [this](const std::string& text) {
    if (text.find("lost") == std::string::npos) return;
    fake_.jobs.Add(v1::JOB_STATE_SUCCEEDED);
    fake_.Start();
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3));
  EXPECT_THAT(fake_.jobs.watched_after(), ElementsAre(0, 2));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("lost the connection"), HasSubstr("is back")));
}

TEST_F(JobClientTest, AConnectionThatIsMadeAgainAtOnceIsNotWorthAWord) {
  fake_.jobs.Add(v1::JOB_STATE_STARTING);
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [this](const v1::Job& job) {
    if (job.sequence() != 2 || fake_.jobs.watched_after().size() > 1) return;
    fake_.Stop();
    fake_.jobs.Add(v1::JOB_STATE_SUCCEEDED);
    fake_.Start();
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3));
  EXPECT_THAT(notes_, ElementsAre());
}

TEST_F(JobClientTest, GivesUpWithTheJobsId) {
  options_.give_up_after = absl::Milliseconds(300);
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [this](const v1::Job&) { fake_.Stop(); };
  const auto result = Follow();
  EXPECT_THAT(result, FailsWith(reason::kServerUnreachable));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("job1"));
  EXPECT_THAT(GetErrorDetail(result.status()).metadata,
              ElementsAre(::testing::Pair("job", "job1")));
}

TEST_F(JobClientTest, AnUnknownJobIsNoLostConnection) {
  EXPECT_THAT(FollowJob(server_, "job2", options_), FailsWith(reason::kJobNotFound));
  EXPECT_THAT(notes_, ElementsAre());
}

TEST_F(JobClientTest, TheFirstInterruptCancelsAndWaits) {
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [](const v1::Job& job) {
    if (job.sequence() == 1) raise(SIGINT);
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(result.end, FollowEnd::kTerminal);
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.cancel_confirmed);
  EXPECT_EQ(fake_.jobs.cancel_count(), 1);
  struct sigaction after {};
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST_F(JobClientTest, TheSecondInterruptLeaves) {
  fake_.jobs.EndJobOnCancel(false);
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [](const v1::Job&) { raise(SIGINT); };
  on_note_ = [](const std::string&) { raise(SIGTERM); };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.end, FollowEnd::kInterrupted);
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_MEASURING);
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.cancel_confirmed);
  EXPECT_EQ(fake_.jobs.cancel_count(), 1);
}

TEST_F(JobClientTest, TheSecondInterruptDoesNotWaitForAServerThatHangs) {
  fake_.jobs.HangInCancel();
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [](const v1::Job&) { raise(SIGINT); };
  on_note_ = [](const std::string& text) {
    if (text.find("interrupt again") != std::string::npos) raise(SIGINT);
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.end, FollowEnd::kInterrupted);
  EXPECT_FALSE(result.cancel_confirmed);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("cancelling"), HasSubstr("job1 may go on")));
}

TEST_F(JobClientTest, ACancellationThatGotLostIsSentAgain) {
  fake_.jobs.FailNextCancels({kGone});
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [this](const v1::Job& job) {
    if (job.sequence() == 1) raise(SIGINT);
    // The first call has failed by now, or will; each event is a new chance.
    if (job.state() == v1::JOB_STATE_MEASURING) fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(fake_.jobs.cancel_count(), 2);
}

TEST_F(JobClientTest, AWatcherJustLeaves) {
  options_.cancel_on_interrupt = false;
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [](const v1::Job&) { raise(SIGINT); };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.end, FollowEnd::kInterrupted);
  EXPECT_EQ(fake_.jobs.cancel_count(), 0);
}

TEST_F(JobClientTest, AnInterruptWhileTheConnectionIsLostIsHeard) {
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  options_.cancel_on_interrupt = false;
  on_event_ = [this](const v1::Job&) { fake_.Stop(); };
  on_note_ = [](const std::string&) { raise(SIGINT); };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.end, FollowEnd::kInterrupted);
}

TEST_F(JobClientTest, AnIgnoredInterruptStaysIgnored) {
  signal(SIGINT, SIG_IGN);
  fake_.jobs.Add(v1::JOB_STATE_MEASURING);
  on_event_ = [this](const v1::Job& job) {
    if (job.sequence() > 1) return;
    raise(SIGINT);
    fake_.jobs.Add(v1::JOB_STATE_SUCCEEDED);
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, Follow());
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_FALSE(result.interrupted);
}

TEST_F(JobClientTest, ALostCreationIsRepeatedWithItsId) {
  fake_.jobs.FailNextCreates({kGone, kGone});
  ASSERT_OK_AND_ASSIGN(const v1::Job job, CreateJob(server_, v1::JobSpec(), "request1"));
  EXPECT_EQ(job.id(), "job1");
  EXPECT_THAT(fake_.jobs.request_ids(), ElementsAre("request1", "request1", "request1"));
}

TEST_F(JobClientTest, ARefusedCreationIsNotRepeated) {
  fake_.jobs.FailNextCreates({rpc::ToGrpcStatus(MakeError(reason::kDraining, "it ends"))});
  EXPECT_THAT(CreateJob(server_, v1::JobSpec(), "request1"), FailsWith(reason::kDraining));
  EXPECT_THAT(fake_.jobs.request_ids(), ElementsAre("request1"));
}

TEST(NewRequestIdTest, DiffersFromCallToCall) { EXPECT_NE(NewRequestId(), NewRequestId()); }

}  // namespace
}  // namespace libreyolo::client
