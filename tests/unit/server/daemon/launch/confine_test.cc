// What the kernel holds a worker to, told by a shell that looks at itself or runs into it.
#include "server/daemon/launch/confine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "server/daemon/launch/worker_limits.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::HasSubstr;

class ConfineTest : public ::testing::Test {
 protected:
  // Runs a script to its end; its output is Said().
  int Run(const std::string& script, ConfinedProcess process) {
    dir_.Write("worker", absl::StrCat("#!/bin/sh\n", script, "\n"));
    EXPECT_EQ(chmod((dir_ / "worker").c_str(), 0700), 0);
    const int out = open((dir_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    process.program = dir_ / "worker";
    process.calls.allow_processes = true;
    process.environment = {"PATH=/usr/bin:/bin"};
    process.descriptors = {{out, 1}, {out, 2}};
    const absl::StatusOr<StartedProcess> started = StartConfined(process);
    close(out);
    EXPECT_OK(started.status());
    int status = -1;
    EXPECT_EQ(waitpid(started->pid, &status, 0), started->pid);
    return status;
  }
  std::string Said() { return ReadFile(dir_ / "out").value_or(""); }

  libreyolo::testing::TempDir dir_;
};

TEST_F(ConfineTest, LimitsAreTheProcesses) {
  ConfinedProcess process;
  process.data_bytes = 256 << 20;
  process.cpu_seconds = 77;
  process.open_files = 99;
  process.file_bytes = 8192;
  // In sh, -d counts KiB and -f blocks of 512 bytes.
  Run("echo data $(ulimit -d) cpu $(ulimit -t) files $(ulimit -n) size $(ulimit -f) core $(ulimit "
      "-c); cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status",
      process);
  EXPECT_THAT(Said(), HasSubstr("data 262144 cpu 77 files 99 size 16 core 0\n500\nNoNewPrivs:\t1"));
}

TEST_F(ConfineTest, WithoutLimitsNothingIsLowered) {
  Run("ulimit -d; ulimit -t", {});
  EXPECT_EQ(Said(), "unlimited\nunlimited\n");
}

TEST_F(ConfineTest, CpuTimeRunsOut) {
  ConfinedProcess process;
  process.cpu_seconds = 1;
  const int status = Run("while :; do :; done", process);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGXCPU);
}

TEST_F(ConfineTest, WhoShrugsAtTheCpuLimitIsKilled) {
  ConfinedProcess process;
  process.cpu_seconds = 1;
  const int status = Run("trap '' XCPU; while :; do :; done", process);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST_F(ConfineTest, FilesDoNotGrowPastTheirSize) {
  ConfinedProcess process;
  process.file_bytes = 8192;
  Run(absl::StrCat("trap '' XFSZ; head -c 100000 /dev/zero >", dir_ / "big"), process);
  EXPECT_THAT(Said(), HasSubstr("File too large"));
  EXPECT_EQ(ReadFile(dir_ / "big")->size(), 8192u);
}

TEST_F(ConfineTest, MemoryIsRefusedPastTheLimit) {
  ConfinedProcess process;
  process.data_bytes = 128 << 20;
  Run("exec python3 -c 'taken = bytearray(512 << 20); print(\"taken\")'", process);
  if (Said() == "taken\n") GTEST_SKIP() << "this kernel does not hold anybody to RLIMIT_DATA";
  EXPECT_THAT(Said(), HasSubstr("MemoryError"));
}

TEST_F(ConfineTest, OpenFilesRunOut) {
  ConfinedProcess process;
  process.open_files = 16;
  Run("exec python3 -c 'files = [open(\"/dev/null\") for i in range(20)]'", process);
  EXPECT_THAT(Said(), HasSubstr("Too many open files"));
}

TEST(WorkerLimitsTest, ReadsWhatTheKernelTells) {
  EXPECT_GT(HostMemoryBytes(), int64_t{64} << 20);
  EXPECT_GE(KernelOomKills(), 0);
  const int64_t before = OwnMemoryOf(getpid());
  const std::string taken(64 << 20, 'x');
  EXPECT_GE(OwnMemoryOf(getpid()), before + (32 << 20)) << taken.size();
  EXPECT_EQ(OwnMemoryOf(0), 0);
}

TEST(WorkerLimitsTest, ErrorsSayWhatWasTaken) {
  const absl::Status over = OverMemory(int64_t{3} << 30, int64_t{2} << 30);
  EXPECT_THAT(over, FailsWith(reason::kOutOfMemory));
  EXPECT_THAT(std::string(over.message()), HasSubstr("3.00 GiB of memory; the server allows 2.00"));
  EXPECT_THAT(OverLimit("x", "--worker-cpu-time"), FailsWith(reason::kWorkerLimit));
}

}  // namespace
}  // namespace libreyolo::daemon
