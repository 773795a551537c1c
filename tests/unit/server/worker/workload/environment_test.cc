#include "server/worker/workload/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/file.h"
#include "common/base/version.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

// A root folder with the files of a made-up machine.
class HostProbeTest : public ::testing::Test {
 protected:
  HostProbeTest() : root_(::testing::TempDir() + "/host_probe_" + std::to_string(getpid())) {}
  ~HostProbeTest() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& path, const std::string& text) {
    const std::string whole = root_ + path;
    ASSERT_OK(MakeDirectories(whole.substr(0, whole.rfind('/'))));
    ASSERT_OK(WriteFile(whole, text));
  }
  HostProbe Probe(std::vector<int> cpus = {0, 1, 2, 3}) { return HostProbe(root_, cpus); }

  std::string root_;
};

TEST_F(HostProbeTest, DescribesTheMachine) {
  Put("/proc/cpuinfo",
      "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.00GHz\n\nprocessor\t: 1\n");
  Put("/proc/meminfo", "MemTotal:       24683896 kB\nMemFree:        1 kB\n");
  Put("/proc/loadavg", "1.25 0.59 0.37 1/85 10074\n");
  Put("/proc/sys/kernel/osrelease", "6.1.0-test\n");
  Put("/proc/self/cgroup", "0::/\n");
  const job::Environment environment = Probe().Describe();
  EXPECT_EQ(environment.cpu_model, "Some CPU @ 2.00GHz");
  EXPECT_EQ(environment.logical_cpus, 4);
  EXPECT_EQ(environment.cpu_quota, 0);
  EXPECT_EQ(environment.load_before, 1.25);
  EXPECT_EQ(environment.memory_total_bytes, int64_t{24683896} * 1024);
  EXPECT_EQ(environment.kernel, "6.1.0-test");
  EXPECT_EQ(environment.worker_build, BuildId());
}

TEST_F(HostProbeTest, ABareRootGivesNothingAndFailsNowhere) {
  const HostProbe probe = Probe();
  EXPECT_EQ(probe.Describe().cpu_model, "");
  EXPECT_EQ(probe.CpuQuota(), 0);
  EXPECT_EQ(probe.LoadAverage(), 0);
  EXPECT_EQ(probe.DefaultThreads(), 4);
  EXPECT_FALSE(probe.SampleCpu().valid);
}

TEST_F(HostProbeTest, QuotaOfControlGroupVersion2) {
  Put("/proc/self/cgroup", "0::/user.slice/job.scope\n");
  Put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "350000 100000\n");
  EXPECT_DOUBLE_EQ(Probe().CpuQuota(), 3.5);
  EXPECT_EQ(Probe().DefaultThreads(), 3);
}

TEST_F(HostProbeTest, TheTightestLevelBinds) {
  Put("/proc/self/cgroup", "0::/user.slice/job.scope\n");
  Put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  Put("/sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(Probe().CpuQuota(), 0.5);
  EXPECT_EQ(Probe().DefaultThreads(), 1);
}

TEST_F(HostProbeTest, InAContainerThePathOfTheHostIsNotThere) {
  Put("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  Put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(Probe().CpuQuota(), 2.0);
}

TEST_F(HostProbeTest, QuotaOfControlGroupVersion1) {
  Put("/proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:memory:/\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(Probe().CpuQuota(), 1.5);
}

TEST_F(HostProbeTest, MinusOneIsNoQuotaInVersion1) {
  Put("/proc/self/cgroup", "1:cpu:/\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Probe().CpuQuota(), 0);
}

TEST_F(HostProbeTest, SamplesTheCpusOfTheProcessOnly) {
  Put("/proc/stat",
      "cpu  100 0 0 900 0 0 0 0 0 0\n"
      "cpu0 10 1 2 80 3 1 1 2 0 0\n"
      "cpu1 20 0 0 80 0 0 0 0 5 0\n"
      "cpu12 500 0 0 0 0 0 0 0 0 0\n"
      "intr 1 2 3\n");
  // The program's name may hold brackets and blanks.
  Put("/proc/self/stat", "77 (a ) (b) S 1 77 77 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 3 0 1 1 1\n");
  const CpuSample sample = Probe({0, 1}).SampleCpu();
  EXPECT_TRUE(sample.valid);
  EXPECT_EQ(sample.busy_ticks, 10 + 1 + 2 + 1 + 1 + 20);
  EXPECT_EQ(sample.steal_ticks, 2);
  EXPECT_EQ(sample.total_ticks, 100 + 100);
  EXPECT_EQ(sample.own_ticks, 42);
}

TEST_F(HostProbeTest, TheRealMachineCanBeRead) {
  const HostProbe probe;
  const job::Environment environment = probe.Describe();
  EXPECT_GT(environment.logical_cpus, 0);
  EXPECT_GT(environment.memory_total_bytes, 0);
  EXPECT_FALSE(environment.kernel.empty());
  EXPECT_TRUE(probe.SampleCpu().valid);
  EXPECT_GE(probe.DefaultThreads(), 1);
  EXPECT_LE(probe.DefaultThreads(), environment.logical_cpus);
  EXPECT_GT(PeakResidentBytes(), 1 << 20);
}

CpuSample Sample(int64_t busy, int64_t steal, int64_t total, int64_t own) {
  return {.busy_ticks = busy,
          .steal_ticks = steal,
          .total_ticks = total,
          .own_ticks = own,
          .valid = true};
}

TEST(CompareCpuTest, WhatOthersUsedIsAShareOfAllCpus) {
  // Ten seconds of two CPUs: 1,500 ticks busy, 1,000 of them ours, 40 stolen.
  const CpuUsage usage = CompareCpu(Sample(500, 10, 10'000, 300), Sample(2'000, 50, 12'000, 1'300));
  EXPECT_DOUBLE_EQ(usage.foreign_ratio, 0.25);
  EXPECT_DOUBLE_EQ(usage.steal_ratio, 0.02);
  EXPECT_TRUE(usage.is_meaningful);
}

TEST(CompareCpuTest, CountingInTicksNeverGivesANegativeShare) {
  const CpuUsage usage = CompareCpu(Sample(0, 0, 0, 0), Sample(100, 0, 200, 101));
  EXPECT_EQ(usage.foreign_ratio, 0);
}

TEST(CompareCpuTest, ABriefWindowCannotTell) {
  EXPECT_FALSE(CompareCpu(Sample(0, 0, 0, 0), Sample(5, 0, 9, 1)).is_meaningful);
  EXPECT_FALSE(CompareCpu(CpuSample{}, CpuSample{}).is_meaningful);
  CpuSample unread = Sample(0, 0, 0, 0);
  unread.valid = false;
  EXPECT_FALSE(CompareCpu(unread, Sample(50, 0, 100, 1)).is_meaningful);
}

}  // namespace
}  // namespace libreyolo::worker
