// The shipped executable, driven over its link as the daemon does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/version.h"
#include "common/job/measurement_json.h"
#include "common/json/json_value.h"
#include "server/worker/worker.h"
#include "tests/support/status_matchers.h"
#include "tests/support/worker_process.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::WorkerProcess;
using ::testing::ElementsAre;
using worker_link::Failed;
using worker_link::Finished;
using worker_link::Hello;
using worker_link::WorkerMessage;
using worker_link::WorkerPlan;

const char kWorker[] = LIBREYOLO_BIN_DIR "/libreyolo-worker";

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() : folder_(::testing::TempDir() + "/worker_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    plan_.job_id = "j1";
    plan_.staging_dir = folder_;
    plan_.device = "cpu";
    plan_.threads = 1;
    plan_.weights = "random";
    plan_.imgsz = 64;
    plan_.warmup = 1;
    plan_.runs = 2;
  }
  ~WorkerTest() override { std::filesystem::remove_all(folder_); }

  void Start() {
    auto worker = WorkerProcess::Start(kWorker);
    ASSERT_OK(worker);
    worker_ = std::move(worker).value();
    ASSERT_OK_AND_ASSIGN(const WorkerMessage first, worker_->Receive());
    ASSERT_TRUE(std::holds_alternative<Hello>(first));
    EXPECT_EQ(std::get<Hello>(first).build_id, BuildId());
    EXPECT_EQ(std::get<Hello>(first).pid, worker_->pid());
  }
  void ExpectExit(int code) {
    const int status = worker_->Wait();
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), code);
  }
  // The status of a job that fails.
  absl::Status RunToFailure() {
    auto messages = worker_->ReceiveToLast();
    EXPECT_OK(messages);
    const auto* failed = std::get_if<Failed>(&messages->back());
    EXPECT_NE(failed, nullptr);
    return failed == nullptr ? absl::OkStatus() : failed->status;
  }

  std::string folder_;
  WorkerPlan plan_;
  std::unique_ptr<WorkerProcess> worker_;
};

TEST_F(WorkerTest, MeasuresAndEnds) {
  Start();
  ASSERT_OK(worker_->Send(plan_));
  ASSERT_OK_AND_ASSIGN(const std::vector<WorkerMessage> messages, worker_->ReceiveToLast());
  ASSERT_TRUE(std::holds_alternative<Finished>(messages.back()));
  const auto& finished = std::get<Finished>(messages.back());
  EXPECT_EQ(finished.lost_records, 0);
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(finished.measurement_json));
  ASSERT_OK_AND_ASSIGN(const job::Measurement measurement, job::MeasurementFromJson(json));
  EXPECT_EQ(measurement.latencies_ns.size(), 2u);
  EXPECT_EQ(access((folder_ + "/profile_trace.json").c_str(), R_OK), 0);
  std::vector<std::string> stages;
  for (const WorkerMessage& message : messages) {
    const auto* progress = std::get_if<worker_link::Progress>(&message);
    if (progress != nullptr && progress->done == progress->total) stages.push_back(progress->stage);
  }
  EXPECT_THAT(stages, ElementsAre("warm-up", "measure", "trace"));
  ExpectExit(kExitFinished);
}

TEST_F(WorkerTest, FailureCarriesTheReason) {
  plan_.weights_path = folder_ + "/absent.pt";
  Start();
  ASSERT_OK(worker_->Send(plan_));
  EXPECT_THAT(RunToFailure(), FailsWith(reason::kWeightsNotFound));
  ExpectExit(kExitFailed);
}

TEST_F(WorkerTest, ACudaDeviceThatCannotBeUsedIsNamed) {
  if (access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU";
  plan_.device = "cuda:0";
  Start();
  ASSERT_OK(worker_->Send(plan_));
  const absl::Status status = RunToFailure();
  EXPECT_THAT(status, FailsWith(reason::kDeviceUnusable));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("cuda:0"));
  ExpectExit(kExitFailed);
}

TEST_F(WorkerTest, ATrainingReadsItsDataset) {
  plan_.mode = job::Mode::kTrain;
  plan_.source_paths = {folder_ + "/absent.yaml"};
  Start();
  ASSERT_OK(worker_->Send(plan_));
  EXPECT_THAT(RunToFailure(), FailsWith(reason::kDatasetNotFound));
}

TEST_F(WorkerTest, CancelEndsALongJob) {
  plan_.runs = 1'000'000;
  Start();
  ASSERT_OK(worker_->Send(plan_));
  for (;;) {  // until it measures
    ASSERT_OK_AND_ASSIGN(const WorkerMessage message, worker_->Receive());
    const auto* progress = std::get_if<worker_link::Progress>(&message);
    if (progress != nullptr && progress->stage == "measure") break;
  }
  ASSERT_OK(worker_->Send(worker_link::Cancel{}));
  EXPECT_THAT(RunToFailure(), FailsWith(reason::kCancelled));
  ExpectExit(kExitFailed);
}

TEST_F(WorkerTest, CancelBeforeThePlanIsHeardToo) {
  Start();
  ASSERT_OK(worker_->Send(worker_link::Cancel{}));
  EXPECT_THAT(RunToFailure(), FailsWith(reason::kCancelled));
}

TEST_F(WorkerTest, EndsWhenTheDaemonDies) {
  plan_.runs = 1'000'000;
  Start();
  ASSERT_OK(worker_->Send(plan_));
  ASSERT_OK(worker_->Receive());  // it has taken the plan
  worker_->CloseLink();
  ExpectExit(kExitLinkLost);
}

TEST_F(WorkerTest, EndsWhenTheDaemonDiesBeforeThePlan) {
  Start();
  worker_->CloseLink();
  ExpectExit(kExitLinkLost);
}

TEST(WorkerByHandTest, ExplainsItself) {
  const int status = system((std::string(kWorker) + " 2>/dev/null 3>&-").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

}  // namespace
}  // namespace libreyolo::worker
