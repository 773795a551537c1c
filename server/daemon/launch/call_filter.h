// System calls that a worker has no use for and that lead out of what it is given: signals to other
// processes and hold on them, owners and permissions of files, which no fence around files knows
// (file_fence.h), sockets of a network, programs of its own.
// Source: seccomp(2), the kernel's Documentation/userspace-api/seccomp_filter.rst.
#pragma once

namespace libreyolo::daemon {

struct CallFilter {
  bool allow_network = false;    // sockets of a network, and connect
  bool allow_connect = false;    // to sockets with a path alone, and memory shared as by System V
  bool allow_processes = false;  // children
};

// Holds for the calling process and what it starts from now on; there is no way back. What is
// refused fails with EPERM, connect with ECONNREFUSED. Wants PR_SET_NO_NEW_PRIVS first. 0 or an
// errno, ENOSYS or EINVAL where the kernel has no seccomp filters. Safe between fork and exec.
int EnterCallFilter(const CallFilter& filter);

}  // namespace libreyolo::daemon
