#include "server/worker_link/worker_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/support/status_matchers.h"

namespace libreyolo::worker_link {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::StatusIs;

TEST(FrameTest, ReassemblesFromSingleBytes) {
  const std::string stream = EncodeFrame("first") + EncodeFrame("") + EncodeFrame("third");
  FrameDecoder decoder;
  std::vector<std::string> got;
  for (char c : stream) {
    decoder.Feed(absl::string_view(&c, 1));
    for (;;) {
      ASSERT_OK_AND_ASSIGN(std::optional<std::string> payload, decoder.Next());
      if (!payload) break;
      got.push_back(*payload);
    }
  }
  EXPECT_EQ(got, (std::vector<std::string>{"first", "", "third"}));
  EXPECT_FALSE(decoder.HasPartial());
}

TEST(FrameTest, RefusesALengthOverTheLimit) {
  FrameDecoder decoder;
  decoder.Feed("\xff\xff\xff\xff");
  EXPECT_THAT(decoder.Next(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(WorkerChannelTest, PlanAndCancelArriveAsSent) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  UniqueFd daemon(fds[0]);
  WorkerChannel channel{UniqueFd(fds[1])};
  WorkerPlan plan;
  plan.job_id = "j1";
  plan.source_paths = {"/a.jpg", "/b.jpg"};
  plan.conf = 0.5;
  plan.amp_dtype = job::AmpDtype::kBfloat16;
  plan.on_contention = job::OnContention::kWait;
  const std::string bytes = EncodeFrame(EncodePayload(DaemonMessage(plan))) +
                            EncodeFrame(EncodePayload(DaemonMessage(Cancel{})));
  ASSERT_EQ(send(daemon.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_OK_AND_ASSIGN(const DaemonMessage first, channel.Receive());
  ASSERT_TRUE(std::holds_alternative<WorkerPlan>(first));
  EXPECT_EQ(std::get<WorkerPlan>(first).source_paths, plan.source_paths);
  EXPECT_EQ(std::get<WorkerPlan>(first).on_contention, job::OnContention::kWait);
  EXPECT_EQ(std::get<WorkerPlan>(first).conf, 0.5);
  EXPECT_EQ(std::get<WorkerPlan>(first).amp_dtype, job::AmpDtype::kBfloat16);
  ASSERT_OK_AND_ASSIGN(const DaemonMessage second, channel.Receive());
  EXPECT_TRUE(std::holds_alternative<Cancel>(second));
  daemon.Reset();
  EXPECT_THAT(channel.Receive(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(channel.Send(Heartbeat{}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(WorkerChannelTest, FailureKeepsReasonHintsAndMetadata) {
  const absl::Status status =
      MakeError(reason::kWindowNotFilled, "too small", {"--steps 3"}, {{"images", "128"}});
  ASSERT_OK_AND_ASSIGN(const WorkerMessage message,
                       DecodeWorkerMessage(EncodePayload(WorkerMessage(Failed{status}))));
  const absl::Status& back = std::get<Failed>(message).status;
  EXPECT_THAT(back, FailsWith(reason::kWindowNotFilled));
  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(GetErrorDetail(back).hints, (std::vector<std::string>{"--steps 3"}));
  EXPECT_EQ(GetErrorDetail(back).metadata, (ErrorMetadata{{"images", "128"}}));
}

TEST(WorkerChannelTest, GarbageIsRefused) {
  EXPECT_FALSE(DecodeWorkerMessage("\xff\xff\xff").ok());
  EXPECT_FALSE(DecodeWorkerMessage("").ok());
  EXPECT_FALSE(DecodeDaemonMessage("").ok());
}

}  // namespace
}  // namespace libreyolo::worker_link
