#include "server/daemon/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace libreyolo::daemon {
namespace {

constexpr int kMaxEvents = 64;
// Without descriptors left there is nothing to do but to wait until some are given back.
constexpr int kFullPauseMs = 50;
// How long sent bytes may stay unacknowledged before the peer counts as gone.
constexpr unsigned kUserTimeoutMs = 30'000;

std::optional<Peer> PeerOf(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return std::nullopt;
  Peer peer;
  if (name.ss_family == AF_UNIX) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    // As they were when the peer connected; what it hands its socket on to speaks in its name.
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
    peer.is_account = true;
    peer.uid = credentials.uid;
    peer.pid = credentials.pid;
    peer.address = absl::StrCat("uid:", credentials.uid);
    return peer;
  }
  char text[INET6_ADDRSTRLEN] = "";
  const void* ip = name.ss_family == AF_INET6
                       ? static_cast<void*>(&reinterpret_cast<sockaddr_in6*>(&name)->sin6_addr)
                       : static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&name)->sin_addr);
  if (inet_ntop(name.ss_family, ip, text, sizeof text) == nullptr) return std::nullopt;
  peer.address = text;
  return peer;
}

void SetTcpOptions(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
}

void Watch(int epoll, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  LY_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) << "epoll: " << strerror(errno);
}

}  // namespace

Door::Door(Limits limits, std::function<bool(pid_t)> is_worker)
    : limits_(limits),
      is_worker_(std::move(is_worker)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  LY_CHECK(epoll_ && stop_) << "epoll: " << strerror(errno);
  Watch(epoll_.get(), stop_.get(), EPOLLIN);
}

Door::~Door() { Stop(); }

void Door::AddListener(int fd, Handler handler) { listeners_.push_back({fd, std::move(handler)}); }

void Door::Start() {
  for (const Listener& listener : listeners_) Watch(epoll_.get(), listener.fd, EPOLLIN);
  thread_ = std::thread([this] { Run(); });
}

void Door::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  LY_CHECK(write(stop_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
  entries_.clear();
}

void Door::Run() {
  for (;;) {
    epoll_event events[kMaxEvents];
    const int count = epoll_wait(epoll_.get(), events, kMaxEvents, -1);
    if (count < 0 && errno == EINTR) continue;
    LY_CHECK(count >= 0) << "epoll: " << strerror(errno);
    // Ends first: they make room for those who wait.
    for (int i = 0; i < count; ++i) OnEnd(events[i].data.fd);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_.get()) return;
      for (const Listener& listener : listeners_) {
        if (listener.fd == fd) Accept(listener);
      }
    }
  }
}

void Door::OnEnd(int watch) {
  const auto found = entries_.find(watch);
  if (found == entries_.end()) return;
  const auto peer = of_peer_.find(found->second.peer);
  if (--peer->second == 0) of_peer_.erase(peer);
  // gRPC's descriptor of it may be open still, and with it what epoll knows.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch, nullptr);
  entries_.erase(found);
  --count_;
}

bool Door::HasRoom(const Peer& peer) {
  const auto found = of_peer_.find(peer.address);
  const bool is_full = count_ >= limits_.connections;
  if (!is_full && (found == of_peer_.end() || found->second < limits_.connections_per_peer)) {
    return true;
  }
  LogRefusal(peer, is_full ? "too many" : "too many of its peer");
  return false;
}

void Door::LogRefusal(const Peer& peer, const char* why) {
  // Whoever knocks all day must not fill the disk.
  const int64_t now_s = MonotonicNs() / 1'000'000'000;
  if (last_refusal_s_ == now_s) {
    ++refusals_unlogged_;
    return;
  }
  last_refusal_s_ = now_s;
  LogWarning(absl::StrCat("connection refused: ", why),
             {{"peer", peer.address}, {"pid", peer.pid}, {"refused_before", refusals_unlogged_}});
  refusals_unlogged_ = 0;
}

void Door::Accept(const Listener& listener) {
  UniqueFd fd(accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      poll(nullptr, 0, kFullPauseMs);
    }
    return;  // or it is gone already
  }
  const std::optional<Peer> peer = PeerOf(fd.get());
  if (!peer.has_value() || !HasRoom(*peer)) return;
  // A worker has the daemon's account; processes of others may be hidden from here.
  if (peer->is_account && peer->uid == geteuid() && is_worker_ && is_worker_(peer->pid)) {
    return LogRefusal(*peer, "it comes from a worker");
  }
  if (!peer->is_account) SetTcpOptions(fd.get());
  UniqueFd watch(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!watch) return;
  // Only gRPC closes the connection, and it shuts it down first, which is what is waited for here.
  if (!listener.handler(*peer, std::move(fd))) {
    shutdown(watch.get(), SHUT_RDWR);
    return;
  }
  const int number = watch.get();
  Watch(epoll_.get(), number, EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLONESHOT);
  entries_.emplace(number, Entry{std::move(watch), peer->address});
  ++of_peer_[peer->address];
  ++count_;
}

}  // namespace libreyolo::daemon
