// The door: takes the connections of all listening sockets before gRPC sees them. It knows whose
// each one is (the account behind a unix socket, the address behind TCP), refuses the daemon's own
// workers, which have its account, keeps the number of connections within limits, and hands them
// on. gRPC alone can do none of it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {

// The other end of a connection.
struct Peer {
  bool is_account = false;  // of this host, over a unix socket
  uid_t uid = 0;            // an account's
  pid_t pid = 0;            // of the process that connected; 0 where it is not seen from here
  std::string address;      // "uid:1000", "10.0.0.7"

  bool operator==(const Peer&) const = default;
};

class Door {
 public:
  struct Limits {
    int connections = 1000;          // at once
    int connections_per_peer = 256;  // of one account or address
  };
  // Takes a connection over; false: it is not let in, and closed. Called on the door's thread.
  using Handler = std::function<bool(const Peer& peer, UniqueFd connection)>;

  // `is_worker` tells whether a process is one of the daemon's workers or their children; empty:
  // none is.
  explicit Door(Limits limits, std::function<bool(pid_t)> is_worker = {});
  ~Door();

  // Before Start(). `fd` listens, or will; it stays the caller's and open until Stop().
  void AddListener(int fd, Handler handler);
  void Start();
  // Takes no more connections. What was handed on stays.
  void Stop();

  int connections() const { return count_; }

 private:
  struct Listener {
    int fd;
    Handler handler;
  };
  struct Entry {
    UniqueFd watch;  // a second descriptor of the connection, which tells when it ends
    std::string peer;
  };
  void Run();
  void Accept(const Listener& listener);
  void OnEnd(int watch);
  bool HasRoom(const Peer& peer);
  // Logs that `peer` is refused, once a second at most.
  void LogRefusal(const Peer& peer, const char* why);

  const Limits limits_;
  const std::function<bool(pid_t)> is_worker_;
  UniqueFd epoll_;
  UniqueFd stop_;
  std::vector<Listener> listeners_;
  std::thread thread_;
  // Below: the door's thread only.
  std::unordered_map<int, Entry> entries_;
  std::map<std::string, int> of_peer_;
  int64_t last_refusal_s_ = -1;
  int64_t refusals_unlogged_ = 0;
  std::atomic<int> count_{0};
};

}  // namespace libreyolo::daemon
