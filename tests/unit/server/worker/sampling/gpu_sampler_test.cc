#include "server/worker/sampling/gpu_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "common/job/measurement_json.h"
#include "tests/fakes/nvml/load_fake_nvml.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

gpu::NvmlProcess OnGpu(int64_t pid, unsigned int instance = gpu::kNvmlNoInstance) {
  return {static_cast<unsigned int>(pid), 5'000'000, instance, gpu::kNvmlNoInstance};
}

class GpuSamplerTest : public ::testing::Test {
 protected:
  GpuSamplerTest() : fake_(LoadFakeNvml(LIBREYOLO_FAKE_NVML)) { fake_.Reset(); }
  ~GpuSamplerTest() override { fake_.Unhang(); }

  GpuSampler::Options Options(const std::string& device = "0") {
    return {.library = LIBREYOLO_FAKE_NVML,
            .device = device,
            .interval = absl::Milliseconds(1),
            .patience = absl::Seconds(30),
            .pid = getpid()};
  }
  static void AwaitSamples(const GpuSampler& sampler, int64_t count) {
    while (sampler.sample_count() < count) std::this_thread::yield();
  }

  FakeNvml& fake_;
};

TEST_F(GpuSamplerTest, WatchesTheWindow) {
  FakeGpu gpu;
  gpu.energy_per_reading_mj = 1000;
  gpu.processes = {OnGpu(1)};
  fake_.SetGpus({gpu});
  GpuSampler sampler(Options());
  gpu.processes.push_back(OnGpu(getpid()));
  gpu.process_use = {{1, 1, 40, 0, 0, 0}, {static_cast<unsigned>(getpid()), 1, 60, 0, 0, 0}};
  gpu.limits = 4;
  fake_.UpdateGpu(0, gpu);
  sampler.BeginWindow();
  AwaitSamples(sampler, 5);
  const job::GpuWatch watch = sampler.EndWindow(10);
  EXPECT_EQ(watch.unavailable, "");
  EXPECT_EQ(watch.uuid, FakeGpu().uuid);
  EXPECT_GE(watch.samples.size(), 5u);
  EXPECT_EQ(watch.samples[0].sm_clock_mhz, 1500);
  EXPECT_EQ(watch.samples[0].foreign_processes, 1);
  EXPECT_DOUBLE_EQ(watch.throttled_ratio, 1);
  EXPECT_EQ(watch.power_mean_w, 250);
  ASSERT_TRUE(watch.energy_j.has_value());
  EXPECT_GT(*watch.energy_j, 0);
  EXPECT_DOUBLE_EQ(*watch.energy_per_image_j, *watch.energy_j / 10);
  ASSERT_EQ(watch.foreign.size(), 1u);
  EXPECT_EQ(watch.foreign[0].pid, 1);
  for (size_t i = 1; i < watch.samples.size(); ++i) {
    EXPECT_GT(watch.samples[i].at_ns, watch.samples[i - 1].at_ns);
  }
}

TEST_F(GpuSamplerTest, AWindowKnowsNothingOfTheOneBefore) {
  FakeGpu gpu;
  gpu.sm_clock = 300;
  fake_.SetGpus({gpu});
  GpuSampler sampler(Options());
  sampler.BeginWindow();
  AwaitSamples(sampler, 2);
  sampler.EndWindow(1);
  gpu.sm_clock = 1800;
  fake_.UpdateGpu(0, gpu);
  sampler.BeginWindow();
  AwaitSamples(sampler, 2);
  EXPECT_EQ(sampler.EndWindow(1).sm_clock_min_mhz, 1800);
}

TEST_F(GpuSamplerTest, TellsWhoIsOnTheGpuBeforeThisJob) {
  FakeGpu gpu;
  fake_.SetGpus({gpu});
  EXPECT_EQ(GpuSampler(Options()).OtherUsers(), "");
  gpu.processes = {OnGpu(1)};
  fake_.SetGpus({gpu});
  // The GPU is idle: the other one only sits there.
  EXPECT_EQ(GpuSampler(Options()).OtherUsers(), "");
  gpu.busy_percent = 30;
  fake_.SetGpus({gpu});
  EXPECT_THAT(GpuSampler(Options()).OtherUsers(), HasSubstr("(1)"));
}

TEST_F(GpuSamplerTest, OfAMigInstanceOnlyItsOwnProcessesCount) {
  FakeGpu gpu;
  gpu.mig = true;
  gpu.instances = {{"MIG-1", "1g", 1, 3}};
  gpu.processes = {OnGpu(1, 5), OnGpu(getpid(), 3)};
  fake_.SetGpus({gpu});
  GpuSampler sampler(Options("MIG-1"));
  sampler.BeginWindow();
  AwaitSamples(sampler, 3);
  const job::GpuWatch watch = sampler.EndWindow(1);
  EXPECT_THAT(watch.foreign, IsEmpty());
  EXPECT_EQ(watch.sm_clock_mean_mhz, 1500);
  EXPECT_EQ(watch.uuid, "MIG-1");
  EXPECT_THAT(watch.name, EndsWith(" MIG 1g")) << "the GPU's model and the instance's profile";
}

TEST_F(GpuSamplerTest, ADriverThatHangsCostsSamplesOnly) {
  GpuSampler::Options options = Options();
  options.patience = absl::Milliseconds(1);
  fake_.Hang();
  {
    GpuSampler sampler(options);
    sampler.BeginWindow();
    EXPECT_THAT(sampler.EndWindow(1).unavailable, HasSubstr("does not answer"));
  }
  fake_.Unhang();
}

TEST_F(GpuSamplerTest, WithoutNvmlTheReasonIsKept) {
  GpuSampler::Options options = Options();
  options.library = "libnvidia-ml-of-nobody.so";
  GpuSampler sampler(options);
  sampler.BeginWindow();
  EXPECT_THAT(sampler.EndWindow(1).unavailable, HasSubstr("no NVIDIA driver"));
  GpuSampler other(Options("17"));
  other.BeginWindow();
  EXPECT_THAT(other.EndWindow(1).unavailable, HasSubstr("NVML knows no device 17"));
}

TEST_F(GpuSamplerTest, TheMeasurementCarriesIt) {
  GpuSampler sampler(Options());
  sampler.BeginWindow();
  AwaitSamples(sampler, 3);
  job::Measurement measurement;
  measurement.gpu_watch = sampler.EndWindow(4);
  ASSERT_OK_AND_ASSIGN(const job::Measurement back,
                       job::MeasurementFromJson(job::MeasurementToJson(measurement)));
  ASSERT_TRUE(back.gpu_watch.has_value());
  EXPECT_EQ(back.gpu_watch->samples.size(), measurement.gpu_watch->samples.size());
  EXPECT_EQ(job::MeasurementToJson(back).ToCompact(),
            job::MeasurementToJson(measurement).ToCompact());
}

TEST(NvmlDeviceTest, FollowsCudaVisibleDevices) {
  EXPECT_EQ(NvmlDeviceOf("cuda:1", ""), "1");
  EXPECT_EQ(NvmlDeviceOf("cuda:0", "MIG-1"), "MIG-1");
  EXPECT_EQ(NvmlDeviceOf("cuda:1", "3, 2"), "2");
  EXPECT_EQ(NvmlDeviceOf("cuda:5", "3"), "5");
}

}  // namespace
}  // namespace libreyolo::worker
