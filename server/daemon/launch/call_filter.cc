#include "server/daemon/launch/call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace libreyolo::daemon {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr uint32_t kForeignCalls = 0x4000'0000;  // from here on those of x32
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr uint32_t kForeignCalls = 0xffff'ffff;
#else
#error "name the architecture of the system calls"
#endif

// LeakSanitizer traces the threads of its own process.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr uint32_t kOfAnyProcess[] = {SYS_tkill,
                                      SYS_pidfd_open,
                                      SYS_pidfd_getfd,
                                      SYS_pidfd_send_signal,
                                      SYS_process_vm_readv,
                                      SYS_process_vm_writev};
// The first argument is the process; for prlimit64 0 is oneself.
constexpr uint32_t kOfANamedProcess[] = {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo,
                                         SYS_rt_tgsigqueueinfo, SYS_prlimit64};

// A program for the kernel's filter machine, made without memory from the heap: libseccomp, which
// could write it, may not be called after a fork.
class Program {
 public:
  void Load(size_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0); }
  // Each skips the next `skip` steps, by the value that was loaded last.
  void SkipIf(uint32_t value, uint8_t skip) { Add(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0); }
  void SkipUnless(uint32_t value, uint8_t skip) { Add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip); }
  void SkipBelow(uint32_t value, uint8_t skip) { Add(BPF_JMP | BPF_JGE | BPF_K, value, 0, skip); }
  void Allow() { Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0); }
  void Refuse() { Add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0); }

  sock_fprog Get() { return {static_cast<unsigned short>(count_), steps_}; }

 private:
  void Add(uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    steps_[count_++] = {code, if_true, if_false, value};
  }
  sock_filter steps_[96];
  size_t count_ = 0;
};

}  // namespace

int EnterCallFilter(bool allow_network) {
  const auto self = static_cast<uint32_t>(syscall(SYS_getpid));
  Program program;
  program.Load(offsetof(seccomp_data, arch));
  program.SkipIf(kArchitecture, 1);
  program.Refuse();
  program.Load(offsetof(seccomp_data, nr));
  program.SkipBelow(kForeignCalls, 1);
  program.Refuse();
  for (const uint32_t call : kOfAnyProcess) {
    program.SkipUnless(call, 1);
    program.Refuse();
  }
  if (!kSanitized) {
    program.SkipUnless(SYS_ptrace, 1);
    program.Refuse();
  }
  for (const uint32_t call : kOfANamedProcess) {
    const bool is_limit = call == SYS_prlimit64;
    program.SkipUnless(call, is_limit ? 6 : 4);
    program.Load(
        offsetof(seccomp_data, args[0]));  // its low half; these machines are little-endian
    program.SkipUnless(self, 1);
    program.Allow();
    if (is_limit) {
      program.SkipUnless(0, 1);
      program.Allow();
    }
    program.Refuse();
  }
  if (!allow_network) {
    // By io_uring sockets are made past a filter.
    program.SkipUnless(SYS_io_uring_setup, 1);
    program.Refuse();
    program.SkipUnless(SYS_socket, 5);
    program.Load(offsetof(seccomp_data, args[0]));
    program.SkipIf(AF_UNIX, 1);
    program.SkipUnless(AF_NETLINK, 1);  // drivers ask the kernel by it
    program.Allow();
    program.Refuse();
  }
  program.Allow();
  sock_fprog filter = program.Get();
  // Without the flag kernels before 5.16 also turn speculation off, and what is measured is slower.
  const bool done =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter) == 0;
  return done ? 0 : errno;
}

}  // namespace libreyolo::daemon
