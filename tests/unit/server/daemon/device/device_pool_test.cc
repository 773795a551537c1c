// Leases hold across processes: what one process has, no other gets, until the last copy of its
// locks is gone.
#include "server/daemon/device/device_pool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::ChildProcess;
using ::libreyolo::testing::StatusIs;
using ::libreyolo::testing::TempDir;
using ::testing::HasSubstr;

class DevicePoolTest : public ::testing::Test {
 protected:
  using Lease = std::unique_ptr<DeviceLease>;
  // "" for a lease, else what it waits for.
  std::string Try(DevicePool& pool, const std::string& device) {
    const auto lease = pool.TryAcquire(device, "probe");
    if (lease.ok()) return "";
    EXPECT_THAT(lease, StatusIs(absl::StatusCode::kUnavailable));
    return std::string(lease.status().message());
  }
  Lease Take(DevicePool& pool, const std::string& device, const std::string& job = "j") {
    auto lease = pool.TryAcquire(device, job);
    EXPECT_OK(lease);
    return lease.ok() ? *std::move(lease) : nullptr;
  }

  TempDir dir_;
  DevicePool ours_{dir_.path()};
  DevicePool theirs_{dir_.path()};  // as in another process: locks belong to open files
};

TEST_F(DevicePoolTest, ADeviceHasOneHolder) {
  Lease lease = Take(ours_, "cuda:0", "j1");
  EXPECT_EQ(ours_.HolderOf("cuda:0"), "j1");
  EXPECT_THAT(Try(ours_, "cuda:0"), HasSubstr("held by job j1"));
  EXPECT_EQ(Try(ours_, "cuda:1"), "");
  lease.reset();
  EXPECT_EQ(ours_.HolderOf("cuda:0"), "");
  EXPECT_EQ(Try(ours_, "cuda:0"), "");
}

TEST_F(DevicePoolTest, TheCpuIsUsedAlone) {
  Lease gpu = Take(ours_, "cuda:0", "j1");
  EXPECT_THAT(Try(ours_, "cpu"), HasSubstr("cuda:0 is held by job j1"));
  gpu.reset();
  Lease cpu = Take(ours_, "cpu", "j2");
  EXPECT_THAT(Try(ours_, "cuda:0"), HasSubstr("cpu is held by job j2"));
}

TEST_F(DevicePoolTest, OtherDaemonsAreKeptOffToo) {
  Lease gpu = Take(ours_, "cuda:0");
  EXPECT_THAT(Try(theirs_, "cuda:0"), HasSubstr("another process"));
  EXPECT_THAT(Try(theirs_, "cpu"), HasSubstr("another process"));
  EXPECT_EQ(Try(theirs_, "cuda:1"), "") << "GPUs work beside each other";
  EXPECT_EQ(theirs_.HolderOf("cuda:0"), "another process");
  gpu.reset();
  Lease cpu = Take(ours_, "cpu");
  EXPECT_THAT(Try(theirs_, "cuda:1"), HasSubstr("held by another process"));
  cpu.reset();
  EXPECT_EQ(Try(theirs_, "cpu"), "");
  EXPECT_EQ(theirs_.HolderOf("cpu"), "");
}

// A daemon is killed; its worker, which inherited the lease's descriptors alone, lives on.
class LeftoverTest : public DevicePoolTest, public ::testing::WithParamInterface<const char*> {
 protected:
  // The child has copies of the lease; ours is gone when this returns.
  std::unique_ptr<ChildProcess> LeaveWorkerOn(const std::string& device) {
    Lease lease = Take(ours_, device);
    const std::vector<int> inherited = lease->fds();
    return std::make_unique<ChildProcess>([inherited] {
      // As after exec: nothing but the descriptors that were handed over.
      for (int fd = 3; fd < 100; ++fd) {
        if (std::find(inherited.begin(), inherited.end(), fd) == inherited.end() &&
            fcntl(fd, F_GETFD) >= 0 && IsLock(fd)) {
          close(fd);
        }
      }
    });
  }
  static bool IsLock(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  }
};

TEST_P(LeftoverTest, NobodyMeasuresBesideAWorkerThatADaemonLeft) {
  const std::string left = GetParam();
  const auto worker = LeaveWorkerOn(left);
  EXPECT_EQ(ours_.HolderOf(left), "another process");
  EXPECT_NE(Try(theirs_, left), "");
  // The host's lock too: the device's alone would let a CPU job in beside a GPU's, and the other
  // way round.
  EXPECT_NE(Try(theirs_, "cpu"), "");
  EXPECT_EQ(Try(theirs_, "cuda:1") == "", left != "cpu");
  worker->Kill();
  EXPECT_EQ(Try(theirs_, left), "");
  EXPECT_EQ(Try(theirs_, "cpu"), "");
  EXPECT_EQ(Try(theirs_, "cuda:1"), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, LeftoverTest, ::testing::Values("cpu", "cuda:0"),
                         [](const auto& info) {
                           return std::string(info.param) == "cpu" ? "Cpu" : "Gpu";
                         });

TEST_F(DevicePoolTest, AFailedTryHoldsNothing) {
  Lease gpu = Take(ours_, "cuda:0");
  EXPECT_NE(Try(theirs_, "cuda:0"), "");  // got the host's lock, and not the device's
  gpu.reset();
  EXPECT_EQ(Try(ours_, "cpu"), "") << "needs the host's lock for itself";
}

TEST_F(DevicePoolTest, ALockThatSomebodyElseMadeIsUsed) {
  dir_.Write("libreyolo-cpu.lock", "");
  ASSERT_EQ(chmod((dir_ / "libreyolo-cpu.lock").c_str(), 0444), 0);
  EXPECT_EQ(Try(ours_, "cpu"), "");
}

TEST_F(DevicePoolTest, EverybodyMayLockWhatAServedDaemonMade) {
  const mode_t before = umask(0077);
  EXPECT_EQ(Try(ours_, "cpu"), "");
  umask(before);
  struct stat info;
  for (const char* name : {"libreyolo-cpu.lock", "libreyolo-host.lock"}) {
    ASSERT_EQ(stat((dir_ / name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0644u) << name;
  }
}

TEST_F(DevicePoolTest, ALockThatIsALinkIsRefused) {
  dir_.Write("target", "");
  ASSERT_EQ(symlink((dir_ / "target").c_str(), (dir_ / "libreyolo-cpu.lock").c_str()), 0);
  const auto lease = ours_.TryAcquire("cpu", "j");
  EXPECT_FALSE(lease.ok());
  EXPECT_FALSE(absl::IsUnavailable(lease.status())) << "an error, nothing to wait for";
}

TEST_F(DevicePoolTest, ALockThatIsAPipeHoldsNobodyUp) {
  ASSERT_EQ(mkfifo((dir_ / "libreyolo-host.lock").c_str(), 0666), 0);
  const auto lease = ours_.TryAcquire("cpu", "j");
  EXPECT_FALSE(lease.ok());
  EXPECT_FALSE(absl::IsUnavailable(lease.status())) << "an error, nothing to wait for";
}

}  // namespace
}  // namespace libreyolo::daemon
