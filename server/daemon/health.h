// What grpc.health.v1 says of each service, and what it follows from. Liveness is the service "";
// an orchestrator that wants to know where jobs may go asks for JobService.
//
//                              ""   JobService   the other services
//   well                       yes  yes          yes
//   cordoned                   yes  no           yes
//   the store is unwritable    yes  no           yes
//   draining                   no   no           no
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace libreyolo::daemon {

struct HealthFacts {
  bool draining = false;
  bool cordoned = false;
  bool store_writable = true;

  bool accepts_jobs() const { return !draining && !cordoned && store_writable; }
};

// (service, is SERVING) for each that there is; "" is the whole server.
std::vector<std::pair<std::string, bool>> ServingOf(const HealthFacts& facts);

// Whether a file can be made in the store and reaches its disk. ErrnoStatus tells why not. Blocks.
absl::Status ProbeStore(const std::string& state_dir);

}  // namespace libreyolo::daemon
