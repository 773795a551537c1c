// This client with servers of the versions beside its own: one that knows less, one that says more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/rpc/channel.h"
#include "client/rpc/inputs.h"
#include "client/rpc/job_client.h"
#include "common/base/version.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/rpc/client_place.h"
#include "tests/unit/client/rpc/fake_server.h"

namespace libreyolo::client {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::HasSubstr;

// What a later version's fields look like to this one.
void AddUnknownFields(google::protobuf::Message& message) {
  auto& fields = *message.GetReflection()->MutableUnknownFields(&message);
  fields.AddVarint(9001, 7);
  fields.AddLengthDelimited(9002, "of a later version");
}

class NeighbourTest : public ::testing::Test {
 protected:
  NeighbourTest() : fake_(client_.Path("run/server.sock")), server_(fake_.AsRemote()) {}

  ClientPlace client_;
  FakeServer fake_;
  Server server_;
};

TEST_F(NeighbourTest, BothSidesSayTheirVersion) {
  fake_.about.about.set_version("9.1.0");
  fake_.about.about.set_build_id("9.1.0+abc");
  AddUnknownFields(fake_.about.about);
  ASSERT_OK_AND_ASSIGN(const v1::Capabilities about, AskCapabilities(server_));
  EXPECT_EQ(about.version(), "9.1.0");
  EXPECT_EQ(fake_.about.asked.client_version(), Version());
  EXPECT_EQ(fake_.about.asked.client_build_id(), BuildId());
}

TEST_F(NeighbourTest, AMethodThatAnOlderServerLacksNamesBothVersions) {
  fake_.about.about.set_version("0.0.9");
  fake_.about.about.set_build_id("0.0.9+old");
  // The fake has no SetCordon, as a server before it had none.
  const auto stub = v1::ServerService::NewStub(server_.channel);
  grpc::ClientContext context;
  v1::Capabilities answer;
  const absl::Status status =
      rpc::FromGrpcStatus(stub->SetCordon(&context, v1::SetCordonRequest(), &answer));
  EXPECT_THAT(status, FailsWith(reason::kUnimplemented));
  const absl::Status named = NameBothVersions(server_, status);
  EXPECT_THAT(named, FailsWith(reason::kUnimplemented));
  EXPECT_THAT(std::string(named.message()), HasSubstr("version 0.0.9, build 0.0.9+old, API v1"));
  EXPECT_THAT(std::string(named.message()), HasSubstr(BuildId()));
}

TEST_F(NeighbourTest, WhereVersionsAreTheSameTheyExplainNothing) {
  fake_.about.about.set_build_id(BuildId());
  const absl::Status status = MakeError(reason::kUnimplemented, "no");
  EXPECT_EQ(NameBothVersions(server_, status), status);
}

TEST_F(NeighbourTest, UnknownStatesAndFieldsOfALaterServerDoNoHarm) {
  constexpr auto kLaterState = static_cast<v1::JobState>(42);
  fake_.jobs.decorate = [](v1::JobEvent& event) {
    AddUnknownFields(event);
    AddUnknownFields(*event.mutable_job());
  };
  fake_.jobs.Add(kLaterState);
  FollowOptions options;
  std::vector<v1::JobState> seen;
  options.on_event = [&](const v1::Job& job) {
    seen.push_back(job.state());
    if (job.state() == kLaterState) fake_.jobs.Add(v1::JOB_STATE_SUCCEEDED);
  };
  ASSERT_OK_AND_ASSIGN(const FollowResult result, FollowJob(server_, "job1", options));
  EXPECT_EQ(result.job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(seen.front(), kLaterState);
}

// The fake neither tells of parts of uploads nor knows an offset.
TEST_F(NeighbourTest, AnOlderServerGetsAWholeUploadAgain) {
  client_.AddFile("work/trace.json", std::string(1 << 20, 'x'));
  fake_.profiles.failing_uploads = 1;
  ASSERT_OK_AND_ASSIGN(const v1::TraceRef ref,
                       ResolveTrace(server_, "./trace.json", "", Beside::kNothing));
  EXPECT_EQ(fake_.profiles.blobs.count(ref.blob_digest()), 1u);
}

}  // namespace
}  // namespace libreyolo::client
