// Two ends of a socket pair stand in for connections: whose they are said to be is up to the test.
#include "server/daemon/access/accounts.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

class WhoService : public v1::ServerService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context,
                                            const v1::GetCapabilitiesRequest*,
                                            v1::Capabilities* response) override {
    const std::optional<Account> account = AccountOf(*context->auth_context());
    response->set_pid(account.has_value() ? static_cast<int64_t>(account->uid) : -1);
    response->set_principal(account.has_value() ? account->name : "");
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class AccountsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    entrances_ = std::make_unique<AccountEntrances>(builder, 2);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  // A client over a connection of `uid`; null when there is no way in.
  std::unique_ptr<v1::ServerService::Stub> Connect(uid_t uid) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd ours(ends[0]);
    if (!entrances_->Take(uid, UniqueFd(ends[1]))) return nullptr;
    return v1::ServerService::NewStub(grpc::CreateInsecureChannelFromFd("", ours.Release()));
  }
  static v1::Capabilities Ask(v1::ServerService::Stub& stub) {
    grpc::ClientContext context;
    v1::Capabilities out;
    const grpc::Status status = stub.GetCapabilities(&context, {}, &out);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return out;
  }

  WhoService service_;
  std::unique_ptr<AccountEntrances> entrances_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(AccountsTest, CallsSayWhoseTheirConnectionIs) {
  const auto root = Connect(0);
  const auto other = Connect(54321);
  const auto root_again = Connect(0);
  EXPECT_EQ(Ask(*root).pid(), 0);
  EXPECT_EQ(Ask(*root).principal(), "root");
  EXPECT_EQ(Ask(*other).pid(), 54321);
  EXPECT_EQ(Ask(*other).principal(), "");
  EXPECT_EQ(Ask(*root_again).pid(), 0);
  EXPECT_EQ(Ask(*other).pid(), 54321);
}

TEST_F(AccountsTest, CallsAtTheSameTimeAllSayIt) {
  const auto stub = Connect(54321);
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int j = 0; j < 50; ++j) EXPECT_EQ(Ask(*stub).pid(), 54321);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(AccountsTest, TheNumberOfAccountsIsLimited) {
  EXPECT_NE(Connect(1001), nullptr);
  EXPECT_NE(Connect(1002), nullptr);
  EXPECT_EQ(Connect(1003), nullptr);
  EXPECT_NE(Connect(1001), nullptr);
}

}  // namespace
}  // namespace libreyolo::daemon
