#include "server/daemon/door.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

constexpr int kWaitMs = 20'000;

// What is behind the door: it keeps what it is handed until it is told to hang up.
class Room {
 public:
  Door::Handler handler() {
    return [this](const Peer& peer, UniqueFd fd) {
      const std::lock_guard<std::mutex> lock(mu_);
      if (is_closed_) return false;
      peers_.push_back(peer);
      connections_.push_back(std::move(fd));
      changed_.notify_all();
      return true;
    };
  }
  Peer AwaitPeer(size_t number) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return peers_.size() > number; });
    return peers_[number];
  }
  size_t count() {
    const std::lock_guard<std::mutex> lock(mu_);
    return peers_.size();
  }
  void Close() {
    const std::lock_guard<std::mutex> lock(mu_);
    is_closed_ = true;
  }
  // As gRPC does it.
  void HangUp(size_t number) {
    const std::lock_guard<std::mutex> lock(mu_);
    shutdown(connections_[number].get(), SHUT_RDWR);
    connections_[number].Reset();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::vector<UniqueFd> connections_;
  bool is_closed_ = false;
};

bool IsHungUp(const UniqueFd& fd) {
  pollfd waiting{fd.get(), POLLIN, 0};
  char byte;
  return poll(&waiting, 1, kWaitMs) == 1 && recv(fd.get(), &byte, 1, 0) <= 0;
}

class DoorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    name_.sun_family = AF_UNIX;
    std::strcpy(name_.sun_path, (dir_ / "s").c_str());
    listening_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    ASSERT_EQ(bind(listening_.get(), reinterpret_cast<sockaddr*>(&name_), sizeof name_), 0);
    ASSERT_EQ(listen(listening_.get(), 16), 0);
  }
  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&name_), sizeof name_), 0);
    return fd;
  }
  // Until the door has noticed what happened.
  static void AwaitConnections(const Door& door, int count) {
    for (int i = 0; i < kWaitMs && door.connections() != count; ++i) poll(nullptr, 0, 1);
    ASSERT_EQ(door.connections(), count);
  }

  libreyolo::testing::TempDir dir_;
  sockaddr_un name_{};
  UniqueFd listening_;
  Room room_;
};

TEST_F(DoorTest, KnowsTheAccountBehindASocket) {
  Door door({});
  door.AddListener(listening_.get(), room_.handler());
  door.Start();
  const UniqueFd fd = Connect();
  const Peer peer = room_.AwaitPeer(0);
  EXPECT_TRUE(peer.is_account);
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_EQ(peer.address, absl::StrCat("uid:", geteuid()));
}

TEST_F(DoorTest, HangsUpOnAWorker) {
  std::atomic<pid_t> asked{0};
  Door door({}, [&asked](pid_t pid) {
    asked = pid;
    return true;
  });
  door.AddListener(listening_.get(), room_.handler());
  door.Start();
  EXPECT_TRUE(IsHungUp(Connect()));
  EXPECT_EQ(asked, getpid());
  EXPECT_EQ(door.connections(), 0);
}

TEST_F(DoorTest, KnowsAnotherAccount) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(name_.sun_path, 0666), 0);
  Door door({});
  door.AddListener(listening_.get(), room_.handler());
  door.Start();
  const pid_t child = fork();
  if (child == 0) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const bool done =
        setuid(kNobody) == 0 && connect(fd, reinterpret_cast<sockaddr*>(&name_), sizeof name_) == 0;
    _exit(done ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(room_.AwaitPeer(0).uid, kNobody);
}

TEST_F(DoorTest, KnowsTheAddressBehindTcp) {
  const UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  ASSERT_EQ(bind(tcp.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(listen(tcp.get(), 1), 0);
  ASSERT_EQ(getsockname(tcp.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  Door door({});
  door.AddListener(tcp.get(), room_.handler());
  door.AddListener(listening_.get(), room_.handler());
  door.Start();
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  const Peer peer = room_.AwaitPeer(0);
  EXPECT_FALSE(peer.is_account);
  EXPECT_EQ(peer.address, "127.0.0.1");
  const UniqueFd other = Connect();
  EXPECT_TRUE(room_.AwaitPeer(1).is_account);
}

TEST_F(DoorTest, OnePeerHasOnlySoManyConnections) {
  Door door({.connections = 10, .connections_per_peer = 2});
  door.AddListener(listening_.get(), room_.handler());
  door.Start();
  const UniqueFd first = Connect();
  UniqueFd second = Connect();
  room_.AwaitPeer(1);
  EXPECT_TRUE(IsHungUp(Connect()));
  EXPECT_EQ(room_.count(), 2u);
  // One that the client ends makes room, and one that the server ends.
  second.Reset();
  AwaitConnections(door, 1);
  const UniqueFd third = Connect();
  room_.AwaitPeer(2);
  room_.HangUp(0);
  AwaitConnections(door, 1);
  EXPECT_TRUE(IsHungUp(first));
  const UniqueFd fourth = Connect();
  room_.AwaitPeer(3);
}

TEST_F(DoorTest, AllTogetherHaveOnlySoMany) {
  Door door({.connections = 1, .connections_per_peer = 5});
  door.AddListener(listening_.get(), room_.handler());
  door.Start();
  const UniqueFd first = Connect();
  room_.AwaitPeer(0);
  EXPECT_TRUE(IsHungUp(Connect()));
}

TEST_F(DoorTest, WhomTheHandlerRefusesIsHungUpOn) {
  Door door({.connections = 1, .connections_per_peer = 1});
  door.AddListener(listening_.get(), room_.handler());
  door.Start();
  room_.Close();
  EXPECT_TRUE(IsHungUp(Connect()));
  EXPECT_TRUE(IsHungUp(Connect()));
  EXPECT_EQ(door.connections(), 0);
}

}  // namespace
}  // namespace libreyolo::daemon
