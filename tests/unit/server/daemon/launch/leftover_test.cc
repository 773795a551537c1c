// What a daemon that died leaves of a job: the next one ends it, and nothing else.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "server/daemon/launch/worker_processes.h"

namespace libreyolo::daemon {
namespace {

// A process with the mark of a job, as every process of a worker has it. The mark is what exec was
// given, so the child becomes another program: `sleep`, in a group of its own or in `group`.
pid_t StartMarked(const std::string& mark, pid_t group) {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, group);
    const char* const argv[] = {"sleep", "1000", nullptr};
    const char* const environment[] = {"PATH=/usr/bin:/bin", mark.c_str(), nullptr};
    execvpe("sleep", const_cast<char* const*>(argv), const_cast<char* const*>(environment));
    _exit(127);
  }
  const std::string path = absl::StrCat("/proc/", pid, "/environ");
  while (!absl::StrContains(ReadFile(path).value_or(""), mark)) sched_yield();
  return pid;
}

bool HasEnded(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}
bool Lives(pid_t pid) { return waitpid(pid, nullptr, WNOHANG) == 0; }
void End(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST(KillLeftoverProcessesTest, EndsTheWorkerAndItsGroup) {
  const pid_t worker = StartMarked("LIBREYOLO_JOB=j1", 0);
  const pid_t child = StartMarked("OTHER=1", worker);  // of the group, without the mark
  KillLeftoverProcesses("j1", worker, ProcessStartTicks(worker));
  EXPECT_TRUE(HasEnded(worker));
  EXPECT_TRUE(HasEnded(child));
}

TEST(KillLeftoverProcessesTest, EndsAGroupWhoseLeaderIsGone) {
  const pid_t worker = StartMarked("LIBREYOLO_JOB=j2", 0);
  const int64_t ticks = ProcessStartTicks(worker);
  const pid_t marked = StartMarked("LIBREYOLO_JOB=j2", worker);
  const pid_t bare = StartMarked("OTHER=1", worker);
  End(worker);
  KillLeftoverProcesses("j2", worker, ticks);
  EXPECT_TRUE(HasEnded(marked));
  EXPECT_TRUE(HasEnded(bare));
}

TEST(KillLeftoverProcessesTest, EndsAProcessThatLeftTheGroup) {
  const pid_t stray = StartMarked("LIBREYOLO_JOB=j3", 0);
  KillLeftoverProcesses("j3", 0, 0);  // the daemon died before it stored the worker's pid
  EXPECT_TRUE(HasEnded(stray));
}

TEST(KillLeftoverProcessesTest, SparesAProcessThatGotTheNumberLater) {
  const pid_t other = StartMarked("OTHER=1", 0);
  KillLeftoverProcesses("j4", other, ProcessStartTicks(other) - 1);
  KillLeftoverProcesses("j4", other, 0);
  EXPECT_TRUE(Lives(other));
  End(other);
}

TEST(KillLeftoverProcessesTest, SparesOtherJobs) {
  const pid_t other = StartMarked("LIBREYOLO_JOB=j55", 0);
  KillLeftoverProcesses("j5", 0, 0);
  KillLeftoverProcesses("", 0, 0);
  EXPECT_TRUE(Lives(other));
  End(other);
}

TEST(ProcessStartTicksTest, IsZeroForNoProcess) {
  EXPECT_GT(ProcessStartTicks(getpid()), 0);
  EXPECT_EQ(ProcessStartTicks(0), 0);
}

}  // namespace
}  // namespace libreyolo::daemon
