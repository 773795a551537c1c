// System calls by which one process of an account reaches into another: signals, tracing, resource
// limits. A worker keeps them for itself alone. Besides those, sockets of a network.
// Source: seccomp(2), the kernel's Documentation/userspace-api/seccomp_filter.rst.
#pragma once

namespace libreyolo::daemon {

// For the calling process and what it starts from now on; there is no way back. What is refused
// fails with EPERM. Wants PR_SET_NO_NEW_PRIVS first. 0 or an errno, ENOSYS or EINVAL where the
// kernel has no seccomp filters. Safe between fork and exec.
int EnterCallFilter(bool allow_network);

}  // namespace libreyolo::daemon
