#include "server/daemon/launch/call_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "server/daemon/launch/sanitized.h"

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

// New kernels' calls have the same number everywhere.
constexpr uint32_t kMemfdSecret = 447;
constexpr uint32_t kFchmodat2 = 452;
constexpr uint32_t kSetxattrat = 463;
constexpr uint32_t kRemovexattrat = 466;
constexpr uint32_t kFileSetattr = 469;

constexpr uint32_t kRefused[] = {
    // Other processes.
    SYS_tkill, SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_process_vm_readv,
    SYS_process_vm_writev,
    // Files' permissions, owners, times and attributes.
    SYS_fchmod, SYS_fchmodat, kFchmodat2, SYS_fchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, kSetxattrat, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, kRemovexattrat,
    SYS_utimensat, kFileSetattr,
#if defined(__x86_64__)
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
    // By its path, which Landlock watches from its third version on; open is looked at below.
    SYS_truncate,
    // Devices and files with any mode.
    SYS_mknodat,
#if defined(__x86_64__)
    SYS_mknod,
#endif
    // Keys of the account, and memory that nobody counts.
    SYS_add_key, SYS_keyctl, SYS_request_key, kMemfdSecret,
    // Ways round a filter: calls that are made in the kernel, and kernels of one's own.
    SYS_io_uring_setup, SYS_unshare, SYS_setns};

// Memory, queues and locks of System V, which all of an account share and which stay.
constexpr uint32_t kSharedWithAccount[] = {SYS_shmget, SYS_shmat,  SYS_shmctl,     SYS_semget,
                                           SYS_semctl, SYS_semop,  SYS_semtimedop, SYS_msgget,
                                           SYS_msgsnd, SYS_msgrcv, SYS_msgctl};

// The argument that names a process, which has to be itself.
struct OfAProcess {
  uint32_t call;
  int argument;
  bool may_be_zero;  // which stands for itself
  int kind_argument = -1;
  uint32_t kind = 0;  // what kind_argument has to be: that one process is meant
};
constexpr uint32_t kIoprioWhoProcess = 1;
constexpr OfAProcess kOfAProcess[] = {
    {SYS_kill, 0, false},
    {SYS_tgkill, 0, false},
    {SYS_rt_sigqueueinfo, 0, false},
    {SYS_rt_tgsigqueueinfo, 0, false},
    {SYS_prlimit64, 0, true},
    {SYS_sched_setaffinity, 0, true},
    {SYS_sched_setscheduler, 0, true},
    {SYS_sched_setparam, 0, true},
    {SYS_sched_setattr, 0, true},
    {SYS_setpriority, 1, true, 0, PRIO_PROCESS},
    {SYS_ioprio_set, 1, true, 0, kIoprioWhoProcess},
};

// Commands of fcntl that have signals sent to others, or make whoever opens a file wait (leases).
// F_SETDELEG is of newer kernels.
constexpr uint32_t kFSetDelegation = 1040;
constexpr uint32_t kRefusedFcntl[] = {F_SETOWN,   F_SETOWN_EX, F_SETSIG,
                                      F_SETLEASE, F_NOTIFY,    kFSetDelegation};
// Commands of ioctl likewise, and by their type those that change a file's attributes or take a
// copy of a whole file system: of btrfs, ext4 and its like, XFS. No GPU's are of these types.
constexpr uint32_t kRefusedIoctl[] = {FIOSETOWN, SIOCSPGRP};
constexpr uint32_t kRefusedIoctlTypes[] = {0x9400, 'f' << 8, 'v' << 8, 'X' << 8};
constexpr uint32_t kIoctlType = 0xff00;

// A program for the kernel's filter machine, made without memory from the heap: libseccomp, which
// could write it, may not be called after a fork.
class Program {
 public:
  void Load(size_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0); }
  void LoadCall() { Load(offsetof(seccomp_data, nr)); }
  // The low half; these machines are little-endian, and what is looked at here is no wider.
  void LoadArgument(int index) {
    Load(offsetof(seccomp_data, args) + sizeof(uint64_t) * static_cast<size_t>(index));
  }
  void And(uint32_t mask) { Add(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0); }
  // Each skips the next `skip` steps, by the value that was loaded last.
  void SkipIf(uint32_t value, uint8_t skip) { Add(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0); }
  void SkipUnless(uint32_t value, uint8_t skip) { Add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip); }
  void SkipBelow(uint32_t value, uint8_t skip) { Add(BPF_JMP | BPF_JGE | BPF_K, value, 0, skip); }
  void Allow() { Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0); }
  void Refuse(uint32_t error = EPERM) { Add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0); }
  void Refuse(uint32_t call, uint32_t error) {
    SkipUnless(call, 1);
    Refuse(error);
  }

  sock_fprog Get() { return {static_cast<unsigned short>(count_), steps_}; }

 private:
  void Add(uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    if (count_ < kRoom) steps_[count_++] = {code, if_true, if_false, value};
  }
  static constexpr size_t kRoom = 512;
  sock_filter steps_[kRoom];
  size_t count_ = 0;
};

void AddProcessRules(Program& program, uint32_t self) {
  for (const OfAProcess& rule : kOfAProcess) {
    const bool has_kind = rule.kind_argument >= 0;
    program.SkipUnless(rule.call,
                       static_cast<uint8_t>(4 + (rule.may_be_zero ? 2 : 0) + (has_kind ? 3 : 0)));
    if (has_kind) {
      program.LoadArgument(rule.kind_argument);
      program.SkipIf(rule.kind, 1);
      program.Refuse();
    }
    program.LoadArgument(rule.argument);
    program.SkipUnless(self, 1);
    program.Allow();
    if (rule.may_be_zero) {
      program.SkipUnless(0, 1);
      program.Allow();
    }
    program.Refuse();
  }
}

void AddCommandRules(Program& program) {
  program.SkipUnless(SYS_fcntl, static_cast<uint8_t>(2 + 2 * std::size(kRefusedFcntl)));
  program.LoadArgument(1);
  for (const uint32_t command : kRefusedFcntl) program.Refuse(command, EPERM);
  program.Allow();
  program.SkipUnless(SYS_ioctl, static_cast<uint8_t>(3 + 2 * std::size(kRefusedIoctl) +
                                                     2 * std::size(kRefusedIoctlTypes)));
  program.LoadArgument(1);
  for (const uint32_t command : kRefusedIoctl) program.Refuse(command, EPERM);
  program.And(kIoctlType);
  for (const uint32_t type : kRefusedIoctlTypes) program.Refuse(type, EPERM);
  program.Allow();
  // Of its modes only the plain one grows the file, which its limit of size sees.
  program.SkipUnless(SYS_fallocate, 4);
  program.LoadArgument(1);
  program.SkipUnless(0, 1);
  program.Allow();
  program.Refuse();
}

// Truncating needs no permission to write where Landlock is older than its third version, if the
// file is opened for reading. Nobody makes a program that runs as somebody else.
void AddOpenRules(Program& program) {
  constexpr uint32_t kSetIds = S_ISUID | S_ISGID;
  const auto add = [&program](uint32_t call, int flags) {
    program.SkipUnless(call, 12);
    program.LoadArgument(flags);
    program.And(O_TRUNC | O_ACCMODE);
    program.SkipUnless(O_TRUNC | O_RDONLY, 1);
    program.Refuse();
    program.LoadArgument(flags);
    program.And(O_CREAT);
    program.SkipIf(0, 4);  // without it the mode is any number
    program.LoadArgument(flags + 1);
    program.And(kSetIds);
    program.SkipIf(0, 1);
    program.Refuse();
    program.Allow();
  };
  add(SYS_openat, 2);
#if defined(__x86_64__)
  add(SYS_open, 1);
  program.SkipUnless(SYS_creat, 5);
  program.LoadArgument(1);
  program.And(kSetIds);
  program.SkipIf(0, 1);
  program.Refuse();
  program.Allow();
#endif
  program.Refuse(SYS_openat2, ENOSYS);  // its flags are in memory
}

// A datagram goes to whoever has a path, without connecting, and takes descriptors along; what is
// called raw is one.
void AddLocalSocketRules(Program& program, uint32_t call) {
  program.SkipUnless(call, 11);
  program.LoadArgument(0);
  program.SkipUnless(AF_NETLINK, 1);  // drivers ask the kernel by it
  program.Allow();
  program.SkipIf(AF_UNIX, 1);
  program.Refuse();
  program.LoadArgument(1);
  program.And(0xf);
  program.SkipIf(SOCK_STREAM, 2);
  program.SkipIf(SOCK_SEQPACKET, 1);
  program.Refuse();
  program.Allow();
}

void AddChildRules(Program& program) {
  // Its flags are in memory; the C library then takes clone.
  program.Refuse(SYS_clone3, ENOSYS);
  program.SkipUnless(SYS_clone, 5);
  program.LoadArgument(0);
  program.And(CLONE_THREAD);
  program.SkipIf(CLONE_THREAD, 1);
  program.Refuse();
  program.Allow();
#if defined(__x86_64__)
  program.Refuse(SYS_fork, EPERM);
  program.Refuse(SYS_vfork, EPERM);
#endif
}

}  // namespace

int EnterCallFilter(const CallFilter& filter) {
  const auto self = static_cast<uint32_t>(syscall(SYS_getpid));
  Program program;
  program.Load(offsetof(seccomp_data, arch));
  program.SkipIf(kArchitecture, 1);
  program.Refuse();
  program.LoadCall();
  program.SkipBelow(kForeignCalls, 1);
  program.Refuse();
  for (const uint32_t call : kRefused) program.Refuse(call, EPERM);
  // LeakSanitizer traces the threads of its own process from another one.
  if (!kSanitized) program.Refuse(SYS_ptrace, EPERM);
  // Each of these ends, or is passed by with the call still loaded.
  AddProcessRules(program, self);
  AddCommandRules(program);
  AddOpenRules(program);
  if (!filter.allow_network) {
    AddLocalSocketRules(program, SYS_socket);
    AddLocalSocketRules(program, SYS_socketpair);
  }
  if (!filter.allow_network && !filter.allow_connect) {
    program.Refuse(SYS_connect, ECONNREFUSED);
    for (const uint32_t call : kSharedWithAccount) program.Refuse(call, EPERM);
  }
  if (!filter.allow_processes && !kSanitized) AddChildRules(program);
  program.Allow();
  sock_fprog code = program.Get();
  // Without the flag kernels before 5.16 also turn speculation off, and what is measured is slower.
  const bool done =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &code) == 0;
  return done ? 0 : errno;
}

}  // namespace libreyolo::daemon
