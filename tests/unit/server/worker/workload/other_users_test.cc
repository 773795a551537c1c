// What a job does when other processes are on its GPU. The forward runs on the CPU; the GPU is the
// fake NVML's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "server/worker/capture/null_source.h"
#include "server/worker/workload/infer_workload.h"
#include "tests/fakes/nvml/load_fake_nvml.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using worker_link::WorkerPlan;
using worker_link::WorkerStage;

constexpr unsigned int kStranger = 1;

// Makes the stranger leave, or come, when the job gets that far.
class GpuObserver : public WorkloadObserver {
 public:
  explicit GpuObserver(FakeNvml& fake) : fake_(fake) {}
  void OnStage(WorkerStage, absl::string_view detail) override { details.emplace_back(detail); }
  void OnProgress(absl::string_view stage, int64_t, int64_t) override {
    if (stage == "wait for the GPU") {
      ++wait_count;
      if (leaves) fake_.SetGpus({FakeGpu()});
      if (gives_up) cancelled = true;
    }
  }
  bool IsCancelled() const override { return cancelled; }

  std::vector<std::string> details;
  int wait_count = 0;
  bool leaves = false;
  bool gives_up = false;
  bool cancelled = false;

 private:
  FakeNvml& fake_;
};

class OtherUsersTest : public ::testing::Test {
 protected:
  OtherUsersTest()
      : fake_(LoadFakeNvml(LIBREYOLO_FAKE_NVML)),
        observer_(fake_),
        folder_(::testing::TempDir() + "/others_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    fake_.Reset();
    plan_.staging_dir = folder_;
    plan_.device = "cpu";
    plan_.threads = 1;
    plan_.weights = "random";
    plan_.imgsz = 64;
    plan_.warmup = 1;
    plan_.runs = 3;
    plan_.trace = false;
  }
  ~OtherUsersTest() override { std::filesystem::remove_all(folder_); }

  void PutStrangerOnGpu() {
    FakeGpu gpu;
    gpu.busy_percent = 50;
    gpu.processes = {{kStranger, 1'000'000, gpu::kNvmlNoInstance, gpu::kNvmlNoInstance}};
    fake_.SetGpus({gpu});
  }
  absl::StatusOr<job::Measurement> Run() {
    GpuSampler sampler({.library = LIBREYOLO_FAKE_NVML,
                        .device = "0",
                        .interval = absl::Milliseconds(1),
                        .patience = absl::Seconds(30),
                        .pid = getpid()});
    return MakeInferWorkload(plan_, {observer_, source_, host_, ChooseClock(), &sampler})->Run();
  }

  FakeNvml& fake_;
  GpuObserver observer_;
  const std::string folder_;
  WorkerPlan plan_;
  NullSource source_;
  HostProbe host_;
};

std::vector<std::string> Codes(const job::Measurement& measurement) {
  std::vector<std::string> codes;
  for (const job::Finding& finding : measurement.findings) codes.push_back(finding.code);
  return codes;
}

TEST_F(OtherUsersTest, WarnMeasuresAndSaysSo) {
  PutStrangerOnGpu();
  ASSERT_OK_AND_ASSIGN(const job::Measurement measurement, Run());
  ASSERT_TRUE(measurement.gpu_watch.has_value());
  EXPECT_THAT(Codes(measurement), Contains("GPU_SHARED"));
  EXPECT_EQ(measurement.gpu_watch->foreign.at(0).pid, kStranger);
}

TEST_F(OtherUsersTest, AloneThereIsNothingToSay) {
  plan_.on_contention = job::OnContention::kFail;
  ASSERT_OK_AND_ASSIGN(const job::Measurement measurement, Run());
  EXPECT_THAT(Codes(measurement), Not(Contains("GPU_SHARED")));
}

TEST_F(OtherUsersTest, FailFailsBeforeAnythingIsMeasured) {
  PutStrangerOnGpu();
  plan_.on_contention = job::OnContention::kFail;
  const auto measured = Run();
  ASSERT_THAT(measured, FailsWith(reason::kGpuContended));
  EXPECT_THAT(std::string(measured.status().message()), HasSubstr("(1)"));
  EXPECT_THAT(GetErrorDetail(measured.status()).hints, Contains(HasSubstr("--on-contention wait")));
}

TEST_F(OtherUsersTest, WaitWaitsUntilTheOtherHasLeft) {
  PutStrangerOnGpu();
  observer_.leaves = true;
  plan_.on_contention = job::OnContention::kWait;
  ASSERT_OK_AND_ASSIGN(const job::Measurement measurement, Run());
  EXPECT_GE(observer_.wait_count, 1);
  EXPECT_THAT(observer_.details, Contains(HasSubstr("waiting for")));
  EXPECT_EQ(measurement.latencies_ns.size(), 3u);
  EXPECT_THAT(Codes(measurement), Not(Contains("GPU_SHARED")));
}

TEST_F(OtherUsersTest, AWaitCanBeCancelled) {
  PutStrangerOnGpu();
  observer_.gives_up = true;
  plan_.on_contention = job::OnContention::kWait;
  EXPECT_THAT(Run(), FailsWith(reason::kCancelled));
}

}  // namespace
}  // namespace libreyolo::worker
