#include "server/daemon/launch/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "common/base/file.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {
namespace {

// Past the limit of CPU time a process that shrugs at SIGXCPU is killed.
constexpr rlim_t kCpuGraceSeconds = 5;

// ---- In the child, between fork and exec: other threads' locks may be held for ever, so only
// functions that are safe in a signal handler are called, and nothing is allocated.

bool WriteProc(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = write(fd, text, strlen(text)) == static_cast<ssize_t>(strlen(text));
  close(fd);
  return done;
}

// A network of its own, with nothing in it. `uid_map` and `gid_map` map the user to itself.
int LeaveNetwork(const char* uid_map, const char* gid_map) {
  // With the privilege alone the user namespace stays, and so do its rights on devices.
  if (unshare(CLONE_NEWNET) == 0) return 0;
  if (errno != EPERM) return errno;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return errno;
  const bool mapped = WriteProc("/proc/self/setgroups", "deny") &&
                      WriteProc("/proc/self/gid_map", gid_map) &&
                      WriteProc("/proc/self/uid_map", uid_map);
  return mapped ? 0 : errno;
}

struct ResourceLimit {
  int resource;
  rlim_t soft;
  rlim_t hard;
};

// Lowers what is higher. Nothing is raised, so that this works without privileges.
bool LimitResources(const ResourceLimit* limits, size_t count) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (size_t i = 0; i < count; ++i) {
    rlimit now{};
    const auto resource = static_cast<__rlimit_resource>(limits[i].resource);
    if (getrlimit(resource, &now) != 0) return false;
    now.rlim_max = std::min(now.rlim_max, limits[i].hard);
    now.rlim_cur = std::min(now.rlim_max, limits[i].soft);
    if (setrlimit(resource, &now) != 0) return false;
  }
  return true;
}

// Of root's privileges only those stay that open files, which are fenced in by other means: a
// root's daemon works in the folders of others. A process without privileges has none to give up.
bool DropCapabilities() {
  constexpr uint32_t kKept = 1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (unsigned long each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    if (each >= 32 || (kKept & 1U << each) == 0) prctl(PR_CAPBSET_DROP, each, 0, 0, 0);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  for (__user_cap_data_struct& set : sets) {
    const uint32_t kept = &set == sets ? kKept : 0;
    set.effective &= kept;
    set.permitted &= kept;
    set.inheritable = 0;
  }
  return syscall(SYS_capset, &header, sets) == 0;
}

void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

constexpr int32_t kNothingSaid = -1;

// What the child says before it becomes the program: kConfined, and kFailed when it does not.
struct Report {
  enum Kind : int32_t { kConfined, kFailed };
  Kind kind = kFailed;
  int32_t error = kNothingSaid;  // kFailed
  int32_t network_error = 0;
  int32_t filter_error = 0;
};

struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const std::pair<int, int>* descriptors;
  size_t descriptor_count;
  int report_fd;
  int fence_fd;  // -1: none
  uint64_t access_to_itself;
  CallFilter calls;
  const char* uid_map;
  const char* gid_map;
  const ResourceLimit* limits;
  size_t limit_count;
};

[[noreturn]] void RunChild(const ChildPlan& plan) {
  const auto fail = [&] {
    const Report report{Report::kFailed, errno, 0, 0};
    const ssize_t sent = write(plan.report_fd, &report, sizeof report);
    _exit(sent == sizeof report ? 127 : 126);
  };
  // The leader of a session stays in its group, by which it is ended.
  if (setsid() < 0 || chdir("/") != 0) fail();
  ResetSignals();
  // What is hidden does not own its files in /proc, which are written to below. Until exec it has
  // the daemon's memory, as long as a few system calls take.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  int first_free = 3;
  for (size_t i = 0; i < plan.descriptor_count; ++i) {
    const auto [ours, theirs] = plan.descriptors[i];
    if (dup2(ours, theirs) < 0) fail();
    first_free = std::max(first_free, theirs + 1);
  }
  // Those that are marked to close at exec do; this is for any that was not. The kernel may lack
  // the call, then the marks have to do.
  const int low = plan.fence_fd < 0 ? plan.report_fd : std::min(plan.report_fd, plan.fence_fd);
  const int high = std::max(plan.report_fd, plan.fence_fd);
  syscall(SYS_close_range, first_free, low - 1, 0);
  if (high - low > 1) syscall(SYS_close_range, low + 1, high - 1, 0);
  syscall(SYS_close_range, high + 1, ~0U, 0);
  // The first to go when memory runs out. Making it so is always allowed.
  WriteProc("/proc/self/oom_score_adj", "500");
  Report confined{Report::kConfined, 0, 0, 0};
  if (!plan.calls.allow_network) confined.network_error = LeaveNetwork(plan.uid_map, plan.gid_map);
  // After the namespace, whose making may need a process more.
  if (!LimitResources(plan.limits, plan.limit_count)) fail();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail();
  if (plan.fence_fd >= 0) {
    errno = EnterFileFence(plan.fence_fd, plan.access_to_itself);
    if (errno != 0) fail();
  }
  if (!DropCapabilities()) fail();
  confined.filter_error = EnterCallFilter(plan.calls);
  if (write(plan.report_fd, &confined, sizeof confined) != sizeof confined) fail();
  execve(plan.program, plan.argv, plan.envp);
  fail();
  _exit(127);
}

// ---- In the daemon

// False at the end.
bool ReadReport(int fd, Report* report) {
  for (;;) {
    const ssize_t count = read(fd, report, sizeof *report);
    if (count == static_cast<ssize_t>(sizeof *report)) return true;
    if (count < 0 && errno == EINTR) continue;
    return false;
  }
}

std::vector<ResourceLimit> LimitsOf(const ConfinedProcess& process) {
  std::vector<ResourceLimit> limits;
  const auto add = [&](int resource, int64_t limit, rlim_t grace = 0) {
    const auto soft = static_cast<rlim_t>(limit);
    if (limit > 0) limits.push_back({resource, soft, soft + grace});
  };
  add(RLIMIT_DATA, process.data_bytes);
  add(RLIMIT_CPU, process.cpu_seconds, kCpuGraceSeconds);
  add(RLIMIT_NOFILE, process.open_files);
  add(RLIMIT_NPROC, process.processes);
  add(RLIMIT_FSIZE, process.file_bytes);
  return limits;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void HideFromOwnAccount() { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

absl::StatusOr<StartedProcess> StartConfined(const ConfinedProcess& process) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make", "a pipe");
  const UniqueFd report(ends[0]);
  UniqueFd child_end(ends[1]);
  // Above all that the child is handed.
  UniqueFd high(fcntl(child_end.get(), F_DUPFD_CLOEXEC, 64));
  if (!high) return ErrnoStatus(errno, "move", "a descriptor");
  child_end.Reset();
  UniqueFd fence;
  if (process.files != nullptr) {
    fence = UniqueFd(fcntl(process.files->fd(), F_DUPFD_CLOEXEC, 64));
    if (!fence) return ErrnoStatus(errno, "move", "a descriptor");
  }

  std::vector<std::string> words = {process.program};
  std::vector<std::string> environment = process.environment;
  const std::vector<char*> argv = Pointers(words);
  const std::vector<char*> envp = Pointers(environment);
  char uid_map[64];
  char gid_map[64];
  std::snprintf(uid_map, sizeof uid_map, "%u %u 1", geteuid(), geteuid());
  std::snprintf(gid_map, sizeof gid_map, "%u %u 1", getegid(), getegid());
  const std::vector<ResourceLimit> limits = LimitsOf(process);
  const ChildPlan plan{process.program.c_str(),
                       argv.data(),
                       envp.data(),
                       process.descriptors.data(),
                       process.descriptors.size(),
                       high.get(),
                       fence.get(),
                       process.files == nullptr ? 0 : process.files->access_to_itself(),
                       process.calls,
                       uid_map,
                       gid_map,
                       limits.data(),
                       limits.size()};
  // No handler of the daemon may run in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) RunChild(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoStatus(fork_error, "start", process.program);
  high.Reset();

  // The pipe's end comes when it runs the program, or is gone.
  StartedProcess started{pid};
  bool confined = false;
  Report said;
  while (ReadReport(report.get(), &said) && said.kind == Report::kConfined) {
    confined = true;
    started.network_error = said.network_error;
    started.filter_error = said.filter_error;
    said = Report{};
  }
  if (confined && said.kind == Report::kFailed && said.error == kNothingSaid) {
    return started;
  }
  waitpid(pid, nullptr, 0);
  return ErrnoStatus(said.error == kNothingSaid ? EIO : said.error, "start", process.program);
}

}  // namespace libreyolo::daemon
