#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/device/visible_devices.h"
#include "server/gpu/call_with_deadline.h"
#include "server/gpu/nvml.h"
#include "tests/fakes/nvml/load_fake_nvml.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kUuidA[] = "GPU-aaaaaaaa-0000-0000-0000-000000000000";
constexpr char kUuidB[] = "GPU-bbbbbbbb-0000-0000-0000-000000000000";
constexpr char kMigA[] = "MIG-11111111-0000-0000-0000-000000000000";
constexpr char kMigB[] = "MIG-22222222-0000-0000-0000-000000000000";

class NvmlInventoryTest : public ::testing::Test {
 protected:
  NvmlInventoryTest() : fake_(LoadFakeNvml(LIBREYOLO_FAKE_NVML)) { fake_.Reset(); }
  // Whatever was left waiting goes on.
  ~NvmlInventoryTest() override { fake_.Unhang(); }

  std::unique_ptr<GpuInventory> Make(absl::Duration deadline = absl::Seconds(30)) {
    return MakeNvmlInventory(LIBREYOLO_FAKE_NVML, deadline);
  }
  DeviceInventory Devices() { return DeviceInventory(Make(), ""); }

  FakeNvml& fake_;
};

FakeGpu Gpu(const std::string& uuid) {
  FakeGpu gpu;
  gpu.uuid = uuid;
  return gpu;
}

TEST_F(NvmlInventoryTest, TellsAllThatNvmlKnows) {
  FakeGpu gpu = Gpu(kUuidA);
  gpu.limits = 0x44;
  gpu.busy_percent = 87;
  gpu.processes = {
      {static_cast<unsigned>(getpid()), 3'000'000, gpu::kNvmlNoInstance, gpu::kNvmlNoInstance},
      {4711, gpu::kNvmlMemoryUnknown, gpu::kNvmlNoInstance, gpu::kNvmlNoInstance}};
  fake_.SetGpus({gpu});
  ASSERT_OK_AND_ASSIGN(const std::vector<DeviceInfo> devices, Make()->ListGpus());
  ASSERT_EQ(devices.size(), 1u);
  const DeviceInfo& device = devices[0];
  EXPECT_EQ(device.id, "cuda:0");
  EXPECT_EQ(device.description, "Fake-100");
  EXPECT_EQ(device.uuid, kUuidA);
  EXPECT_EQ(device.unusable, "");
  EXPECT_EQ(device.memory_total_bytes, 16'000'000'000);
  EXPECT_EQ(device.memory_used_bytes, 1'000'000'000);
  ASSERT_EQ(device.processes.size(), 2u);
  EXPECT_EQ(device.processes[0].pid, getpid());
  EXPECT_EQ(device.processes[0].name, "gpu_devices_tes");  // the system keeps 15 characters
  EXPECT_EQ(device.processes[0].memory_bytes, 3'000'000);
  EXPECT_FALSE(device.processes[1].memory_bytes.has_value());
  const gpu::GpuDescription& details = *device.details;
  EXPECT_EQ(details.pci_bus_id, "00000000:01:00.0");
  EXPECT_EQ(details.max_sm_clock_mhz, 1980);
  EXPECT_EQ(details.power_limit_w, 700);
  EXPECT_EQ(details.persistence, true);
  EXPECT_EQ(details.compute_mode, "default");
  EXPECT_EQ(details.now.sm_clock_mhz, 1500);
  EXPECT_EQ(details.now.memory_clock_mhz, 2600);
  EXPECT_EQ(details.now.power_w, 250);
  EXPECT_EQ(details.now.energy_j, 5000);
  EXPECT_EQ(details.now.temperature_c, 41);
  EXPECT_EQ(details.now.busy_percent, 87);
  EXPECT_THAT(gpu::ClockLimitNames(*details.now.clock_limits),
              ElementsAre("power cap", "hot (hardware)"));
}

TEST_F(NvmlInventoryTest, WhatADeviceDoesNotTellIsAbsent) {
  FakeGpu gpu;
  gpu.tells_nothing = true;
  fake_.SetGpus({gpu});
  ASSERT_OK_AND_ASSIGN(const std::vector<DeviceInfo> devices, Make()->ListGpus());
  const gpu::GpuReading& now = devices[0].details->now;
  EXPECT_FALSE(now.sm_clock_mhz.has_value());
  EXPECT_FALSE(now.clock_limits.has_value());
  EXPECT_FALSE(now.power_w.has_value());
  EXPECT_FALSE(now.energy_j.has_value());
  EXPECT_FALSE(now.processes.has_value());
  EXPECT_FALSE(devices[0].details->persistence.has_value());
  EXPECT_EQ(devices[0].unusable, "");
}

TEST_F(NvmlInventoryTest, MigInstancesAreDevicesAndTheirGpuIsNot) {
  FakeGpu gpu = Gpu(kUuidA);
  gpu.mig = true;
  gpu.instances = {{kMigA, "Fake-100 MIG 1g.5gb", 5'000'000'000, 3},
                   {kMigB, "Fake-100 MIG 2g.10gb", 10'000'000'000, 5}};
  gpu.processes = {{10, 1, 3, 0}, {11, 1, 5, 0}};
  fake_.SetGpus({gpu, Gpu(kUuidB)});
  DeviceInventory devices = Devices();
  const std::vector<DeviceInfo> list = devices.List();
  ASSERT_EQ(list.size(), 5u);  // the CPU first
  EXPECT_EQ(list[1].id, "cuda:0");
  EXPECT_THAT(list[1].unusable, HasSubstr("MIG"));
  EXPECT_EQ(list[2].id, kMigA);
  EXPECT_EQ(list[2].parent, "cuda:0");
  EXPECT_EQ(list[2].description, "Fake-100 MIG 1g.5gb");
  EXPECT_EQ(list[2].memory_total_bytes, 5'000'000'000);
  ASSERT_EQ(list[2].processes.size(), 1u);
  EXPECT_EQ(list[2].processes[0].pid, 10);
  EXPECT_EQ(list[4].id, "cuda:1");
  EXPECT_THAT(devices.Resolve("0"), FailsWith(reason::kDeviceUnusable));
  EXPECT_EQ(*devices.Resolve(kMigB), kMigB);
  EXPECT_EQ(*devices.Resolve("1"), "cuda:1");
}

TEST_F(NvmlInventoryTest, ALostGpuLeavesTheOthers) {
  FakeGpu lost = Gpu(kUuidA);
  lost.open_result = gpu::kNvmlGpuIsLost;
  fake_.SetGpus({lost, Gpu(kUuidB)});
  DeviceInventory devices = Devices();
  EXPECT_THAT(devices.Resolve("0"), FailsWith(reason::kDeviceUnusable));
  EXPECT_EQ(*devices.Resolve("1"), "cuda:1");
  EXPECT_EQ(devices.CudaUnusableReason(), "");
  EXPECT_EQ(devices.List()[1].unusable, "GPU is lost");
}

TEST_F(NvmlInventoryTest, AForbiddenComputeModeIsNamed) {
  FakeGpu gpu;
  gpu.compute_mode = 2;
  fake_.SetGpus({gpu});
  EXPECT_THAT(Devices().CudaUnusableReason(), HasSubstr("compute mode"));
}

struct InitCase {
  const char* name;
  gpu::NvmlReturn result;
  const char* says;
};
class NvmlInitTest : public NvmlInventoryTest, public ::testing::WithParamInterface<InitCase> {};

TEST_P(NvmlInitTest, TheReasonIsToldAndCpuStillWorks) {
  fake_.SetInitResult(GetParam().result);
  DeviceInventory devices = Devices();
  EXPECT_THAT(devices.CudaUnusableReason(), HasSubstr(GetParam().says));
  const auto gpu = devices.Resolve("0");
  ASSERT_THAT(gpu, FailsWith(reason::kDeviceUnusable));
  EXPECT_THAT(std::string(gpu.status().message()), HasSubstr(GetParam().says));
  EXPECT_EQ(*devices.Resolve("cpu"), "cpu");
  EXPECT_EQ(devices.List().size(), 1u);
}
INSTANTIATE_TEST_SUITE_P(Codes, NvmlInitTest,
                         ::testing::ValuesIn(std::vector<InitCase>{
                             {"NoDriver", gpu::kNvmlDriverNotLoaded, "Driver Not Loaded"},
                             {"Mismatch", gpu::kNvmlVersionMismatch, "do not fit"},
                             {"NoPermission", gpu::kNvmlNoPermission, "Insufficient Permissions"}}),
                         [](const auto& info) { return info.param.name; });

TEST_F(NvmlInventoryTest, GpusThatCannotBeCountedAreNoGpus) {
  fake_.SetCountResult(999);
  EXPECT_THAT(Make()->ListGpus(), StatusIs(absl::StatusCode::kFailedPrecondition));
  fake_.SetCountResult(gpu::kNvmlSuccess);
  fake_.SetGpus({});
  EXPECT_THAT(Devices().CudaUnusableReason(), HasSubstr("no GPU"));
}

TEST_F(NvmlInventoryTest, NoLibraryIsNoDriver) {
  const auto gpus = MakeNvmlInventory("libnvidia-ml-of-nobody.so")->ListGpus();
  EXPECT_THAT(gpus, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string(gpus.status().message()), HasSubstr("no NVIDIA driver"));
  const auto other = MakeNvmlInventory("libm.so.6")->ListGpus();
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("lacks nvmlInit_v2"));
}

TEST_F(NvmlInventoryTest, ADriverThatHangsHangsNobody) {
  const auto inventory = Make(absl::Milliseconds(20));
  ASSERT_OK(inventory->ListGpus());
  fake_.Hang();
  const auto first = inventory->ListGpus();
  ASSERT_THAT(first, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string(first.status().message()), HasSubstr("does not answer"));
  // The next ones fail at once and leave no more threads behind.
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(inventory->ListGpus().ok());
  EXPECT_EQ(fake_.WaitingCalls(), 1);
  // Once the driver is back, so is the list.
  fake_.Unhang();
  while (!inventory->ListGpus().ok()) std::this_thread::yield();
}

TEST_F(NvmlInventoryTest, AnInventoryMayGoWhileItsCallHangs) {
  auto inventory = Make(absl::Milliseconds(10));
  fake_.Hang();
  EXPECT_FALSE(inventory->ListGpus().ok());
  inventory.reset();
  fake_.Unhang();
  ASSERT_OK(Make()->ListGpus());
}

TEST(CallWithDeadlineTest, CallersTakeTurns) {
  gpu::CallWithDeadline<int> calls;
  std::vector<std::thread> threads;
  std::atomic<int> sum = 0;
  for (int i = 1; i <= 8; ++i) {
    threads.emplace_back([&calls, &sum, i] {
      sum += *calls.Run([i]() -> absl::StatusOr<int> { return i; }, absl::Seconds(30));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 36);
}

// CUDA_VISIBLE_DEVICES, as CUDA reads it.
struct VisibleCase {
  const char* name;
  const char* variable;
  std::vector<std::string> want;
};
class VisibleDevicesTest : public ::testing::TestWithParam<VisibleCase> {};

TEST_P(VisibleDevicesTest, GivesTheDevicesInItsOrder) {
  std::vector<DeviceInfo> gpus(4);
  gpus[0].id = "cuda:0";
  gpus[0].uuid = kUuidA;
  gpus[1].id = "cuda:1";
  gpus[1].uuid = kUuidB;
  gpus[2].id = gpus[2].uuid = kMigA;
  gpus[3].id = "cuda:2";
  gpus[3].uuid = "GPU-bbbbbbbc-0000-0000-0000-000000000000";
  EXPECT_EQ(VisibleDevices(gpus, GetParam().variable), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(Rules, VisibleDevicesTest,
                         ::testing::ValuesIn(std::vector<VisibleCase>{
                             {"One", "1", {"cuda:1"}},
                             {"Order", "2,0", {"cuda:2", "cuda:0"}},
                             {"Spaces", " 1 , 0 ", {"cuda:1", "cuda:0"}},
                             {"Uuid", kUuidB, {"cuda:1"}},
                             {"ShortUuid", "GPU-aa", {"cuda:0"}},
                             {"ShortUuidOfTwo", "GPU-bbbb", {}},
                             {"Mixed", "GPU-aaaaaaaa,2", {"cuda:0", "cuda:2"}},
                             {"Mig", kMigA, {kMigA}},
                             {"ShortMig", "MIG-1111", {}},
                             {"None", "-1", {}},
                             {"Empty", "", {}},
                             {"InvalidEndsTheList", "1,7,0", {"cuda:1"}},
                             {"NegativeEndsTheList", "0,-1,1", {"cuda:0"}},
                             {"WordEndsTheList", "0,gpu1,1", {"cuda:0"}},
                             {"TwiceEndsTheList", "1,1,0", {"cuda:1"}},
                             {"TwiceByAnotherName", "1,GPU-bbbbbbbb-,0", {"cuda:1"}},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST_F(NvmlInventoryTest, NumbersCountWhatIsVisible) {
  fake_.SetGpus({Gpu(kUuidA), Gpu(kUuidB)});
  DeviceInventory devices = Devices();
  EXPECT_EQ(*devices.Resolve("0", "1"), "cuda:1");
  EXPECT_EQ(*devices.Resolve("cuda:1", "1,0"), "cuda:0");
  EXPECT_EQ(*devices.Resolve(kUuidA, "1,0"), "cuda:0");
  EXPECT_EQ(*devices.Resolve("cpu", "-1"), "cpu");
  const auto hidden = devices.Resolve("1", "1");
  ASSERT_THAT(hidden, FailsWith(reason::kDeviceNotFound));
  EXPECT_THAT(std::string(hidden.status().message()), HasSubstr("CUDA_VISIBLE_DEVICES=1"));
  EXPECT_THAT(devices.Resolve(kUuidA, "1"), FailsWith(reason::kDeviceNotFound));
  EXPECT_THAT(devices.Resolve("0", "-1"), FailsWith(reason::kDeviceNotFound));
  EXPECT_THAT(devices.Resolve("2"), FailsWith(reason::kDeviceNotFound));
}

TEST_F(NvmlInventoryTest, KnowsWhetherAProcessIsStillOnADevice) {
  FakeGpu gpu = Gpu(kUuidA);
  gpu.processes = {
      {static_cast<unsigned>(getpid()), 1, gpu::kNvmlNoInstance, gpu::kNvmlNoInstance}};
  fake_.SetGpus({gpu, Gpu(kUuidB)});
  const DeviceInventory devices = Devices();
  EXPECT_TRUE(devices.HasProcessOf("cuda:0", getpid()));
  EXPECT_TRUE(devices.HasProcessOf("cuda:0", getpgid(0)));  // of its group
  EXPECT_FALSE(devices.HasProcessOf("cuda:1", getpid()));
  EXPECT_FALSE(devices.HasProcessOf("cuda:0", 1));
  fake_.SetCountResult(999);
  EXPECT_FALSE(devices.HasProcessOf("cuda:0", getpid()));
}

TEST(WorkerDeviceTest, EachKindOfDeviceIsReachedInItsWay) {
  EXPECT_EQ(WorkerDeviceOf("cpu").name, "cpu");
  EXPECT_THAT(WorkerDeviceOf("cpu").environment, IsEmpty());
  const WorkerDevice gpu = WorkerDeviceOf("cuda:1");
  EXPECT_EQ(gpu.name, "cuda:1");
  EXPECT_THAT(gpu.environment, ElementsAre(std::pair("CUDA_DEVICE_ORDER", "PCI_BUS_ID")));
  const WorkerDevice mig = WorkerDeviceOf(kMigA);
  EXPECT_EQ(mig.name, "cuda:0");
  EXPECT_THAT(mig.environment, ElementsAre(std::pair("CUDA_VISIBLE_DEVICES", kMigA)));
}

}  // namespace
}  // namespace libreyolo::daemon
