// Real trainings of the smallest setup: YOLO9-t with initial weights on 64 x 64 pixels.
#include "server/worker/workload/train_workload.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/analysis/build_profile.h"
#include "common/base/file.h"
#include "common/trace/trace_reader.h"
#include "server/worker/capture/null_source.h"
#include "server/worker/data/image_source.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using worker_link::WorkerPlan;
using worker_link::WorkerStage;

class RecordingObserver : public WorkloadObserver {
 public:
  void OnStage(WorkerStage, absl::string_view detail) override { details.emplace_back(detail); }
  void OnProgress(absl::string_view stage, int64_t done, int64_t total) override {
    EXPECT_LE(done, total);
    if (stage == "measure" && at::hasGlobalCallbacks()) observed_while_measuring = true;
    if (stage == "trace" && at::hasGlobalCallbacks()) observed_while_tracing = true;
    if (++progress_count == cancel_at) cancelled = true;
  }
  bool IsCancelled() const override { return cancelled; }

  std::vector<std::string> details;
  int progress_count = 0;
  int cancel_at = -1;
  bool cancelled = false;
  bool observed_while_measuring = false;
  bool observed_while_tracing = false;
};

class TrainWorkloadTest : public ::testing::Test {
 protected:
  TrainWorkloadTest() : folder_(absl::StrCat(::testing::TempDir(), "/train_", getpid())) {
    std::filesystem::remove_all(folder_);
    plan_.job_id = "j1";
    plan_.mode = job::Mode::kTrain;
    plan_.staging_dir = folder_ + "/staging";
    std::filesystem::create_directories(plan_.staging_dir);
    plan_.device = "cpu";
    plan_.threads = 1;
    plan_.weights = "random";
    plan_.imgsz = 64;
    plan_.batch = 2;
    plan_.warmup = 1;
    plan_.runs = 4;
    plan_.workers = 2;
    plan_.source = "data.yaml";
    plan_.source_paths = {folder_ + "/data.yaml"};
    MakeDataset(10);
  }
  ~TrainWorkloadTest() override { std::filesystem::remove_all(folder_); }

  void MakeDataset(int images) {
    std::filesystem::create_directories(folder_ + "/images");
    std::filesystem::create_directories(folder_ + "/labels");
    for (int i = 0; i < images; ++i) {
      EXPECT_OK(WriteFile(absl::StrCat(folder_, "/images/", i, ".jpg"), data::SampleImageJpeg()));
      EXPECT_OK(WriteFile(absl::StrCat(folder_, "/labels/", i, ".txt"),
                          absl::StrCat(i % 3, " 0.5 0.5 0.4 0.4\n")));
    }
    EXPECT_OK(WriteFile(folder_ + "/data.yaml", "train: images\nnc: 3\n"));
  }

  absl::StatusOr<job::Measurement> Run() {
    return MakeTrainWorkload(plan_, {observer_, source_, host_, ChooseClock()})->Run();
  }
  std::string TracePath() const { return absl::StrCat(plan_.staging_dir, "/", kTraceFileName); }
  std::vector<std::string> AllFiles() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  std::string folder_;
  WorkerPlan plan_;
  RecordingObserver observer_;
  NullSource source_;
  HostProbe host_;
};

std::map<std::string, std::string> Findings(const job::Measurement& m) {
  std::map<std::string, std::string> findings;
  for (const job::Finding& finding : m.findings) findings[finding.code] = finding.text;
  return findings;
}

TEST_F(TrainWorkloadTest, MeasuresBothHalves) {
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.mode, job::Mode::kTrain);
  ASSERT_EQ(m.latencies_ns.size(), 2u);
  ASSERT_EQ(m.dataload_ns.size(), 2u);
  ASSERT_EQ(m.traced_steps.size(), 2u);
  EXPECT_EQ(m.images_processed, 4);
  EXPECT_EQ(m.source_count, 10);
  EXPECT_EQ(m.batch, 2);
  EXPECT_EQ(m.model.class_count, 3);
  EXPECT_EQ(m.model.size, "t");
  EXPECT_TRUE(m.amp_requested);
  EXPECT_FALSE(m.amp);
  EXPECT_EQ(Findings(m).count("AMP_NOT_IN_FORCE"), 1u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GT(m.latencies_ns[i], m.dataload_ns[i]);
    EXPECT_GE(m.dataload_ns[i], 0);
  }
  for (const job::TracedStep& step : m.traced_steps) {
    int64_t inside_ns = 0;
    std::vector<std::string> names;
    for (const auto& [name, ns] : step.phases_ns) {
      names.push_back(name);
      inside_ns += ns;
    }
    EXPECT_THAT(names, ElementsAre("dataload", "to_device", "forward", "backward", "optimizer"));
    EXPECT_LT(inside_ns, step.duration_ns);
  }
}

TEST_F(TrainWorkloadTest, TracerExistsInTheSecondHalfOnly) {
  ASSERT_OK(Run().status());
  EXPECT_FALSE(observer_.observed_while_measuring);
  EXPECT_TRUE(observer_.observed_while_tracing);
}

TEST_F(TrainWorkloadTest, TraceHoldsEveryPhaseAndTheRest) {
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  ASSERT_OK_AND_ASSIGN(const trace::RecordedTrace trace, trace::ReadTrace(TracePath()));
  ASSERT_OK_AND_ASSIGN(const analysis::Profile profile,
                       analysis::BuildProfile(trace, &m, {.trace_path = TracePath()}));
  std::map<std::string, analysis::PhaseRow> phases;
  double sum_ms = 0;
  for (const analysis::PhaseRow& row : profile.phases) {
    phases[row.phase] = row;
    if (row.phase != "dataload") sum_ms += row.wall_ms_per_step.value_or(0);
  }
  for (const char* name : {"forward", "backward", "optimizer", "other"}) {
    ASSERT_EQ(phases.count(name), 1u) << name;
    EXPECT_GT(phases[name].ops_per_step.value_or(0), 0) << name;
    EXPECT_GT(phases[name].wall_ms_per_step.value_or(0), 0) << name;
  }
  EXPECT_EQ(phases.count("unphased"), 0u);
  // Nothing is lost and nothing is counted twice: all parts but the wait make up the traced step.
  double traced_ms = 0;
  for (const job::TracedStep& step : m.traced_steps) {
    traced_ms += static_cast<double>(step.duration_ns - step.phases_ns[0].second) / 1e6;
  }
  traced_ms /= static_cast<double>(m.traced_steps.size());
  EXPECT_NEAR(sum_ms, traced_ms, 0.05 + 0.001 * traced_ms);
}

TEST_F(TrainWorkloadTest, BackwardOpsBelongToBackward) {
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  ASSERT_OK_AND_ASSIGN(const trace::RecordedTrace trace, trace::ReadTrace(TracePath()));
  ASSERT_OK_AND_ASSIGN(const analysis::Profile profile,
                       analysis::BuildProfile(trace, &m, {.trace_path = TracePath()}));
  for (const auto& [phase, rows] : profile.ops_by_phase) {
    const bool has_backward = std::any_of(rows.begin(), rows.end(), [](const analysis::OpRow& row) {
      return row.op.find("ConvolutionBackward") != std::string::npos;
    });
    EXPECT_EQ(has_backward, phase == "backward") << phase;
  }
}

TEST_F(TrainWorkloadTest, LeavesTheDatasetAsItWas) {
  const std::vector<std::string> before = AllFiles();
  ASSERT_OK(Run().status());
  std::vector<std::string> after = AllFiles();
  after.erase(std::remove(after.begin(), after.end(), TracePath()), after.end());
  EXPECT_EQ(after, before);
}

TEST_F(TrainWorkloadTest, ASmallDatasetIsRefusedBeforeAnyTraining) {
  plan_.runs = 5;  // (1 + 5) x 2 = 12 images, and there are 10
  const absl::Status status = Run().status();
  EXPECT_THAT(status, FailsWith(reason::kWindowNotFilled));
  EXPECT_THAT(std::string(status.message()), HasSubstr("12"));
  EXPECT_EQ(observer_.progress_count, 0);
  EXPECT_FALSE(std::filesystem::exists(TracePath()));
}

TEST_F(TrainWorkloadTest, PicksABatchByTryingSteps) {
  plan_.batch = -1;
  plan_.runs = 2;
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.batch, 3);  // 10 images in (1 + 2) batches: memory would allow more
  EXPECT_EQ(m.images_processed, 3);
  EXPECT_THAT(Findings(m)["BATCH_PICKED"], HasSubstr("10 images allow no more"));
}

TEST_F(TrainWorkloadTest, BadPicturesAndLabelsAreCountedAndReplaced) {
  ASSERT_OK(WriteFile(folder_ + "/images/broken.jpg", data::SampleImageJpeg().substr(0, 3000)));
  ASSERT_OK(WriteFile(folder_ + "/images/empty.png", ""));
  ASSERT_OK(
      WriteFile(folder_ + "/labels/0.txt", "0 0.5 0.5 0.4 0.4\n7 0.5 0.5 0.1 0.1\nx 1 2 3 4\n"));
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  auto findings = Findings(m);
  EXPECT_THAT(findings["IMAGES_SKIPPED"], HasSubstr("left out: 1"));
  EXPECT_THAT(findings["LABELS_SKIPPED"], HasSubstr("left out: 2"));
}

TEST_F(TrainWorkloadTest, BackgroundPicturesAloneTrain) {
  std::filesystem::remove_all(folder_ + "/labels");
  ASSERT_OK(Run().status());
}

TEST_F(TrainWorkloadTest, WithoutClassesTheModelsOwnCountStands) {
  ASSERT_OK(WriteFile(folder_ + "/data.yaml", "train: images\n"));
  ASSERT_OK_AND_ASSIGN(const job::Measurement m, Run());
  EXPECT_EQ(m.model.class_count, 80);
}

TEST_F(TrainWorkloadTest, WorksWithoutLoaderThreads) {
  plan_.workers = 0;
  ASSERT_OK(Run().status());
}

TEST_F(TrainWorkloadTest, CancelEndsItBetweenSteps) {
  observer_.cancel_at = 2;
  EXPECT_THAT(Run().status(), FailsWith(reason::kCancelled));
  EXPECT_FALSE(std::filesystem::exists(TracePath()));
}

TEST_F(TrainWorkloadTest, AMissingDatasetIsNamed) {
  plan_.source_paths = {folder_ + "/gone.yaml"};
  EXPECT_THAT(Run().status(), FailsWith(reason::kDatasetNotFound));
}

TEST_F(TrainWorkloadTest, AFullStoreIsAnErrorOfTheStore) {
  std::filesystem::remove_all(plan_.staging_dir);
  EXPECT_THAT(Run().status(), FailsWith(reason::kStoreFailed));
}

}  // namespace
}  // namespace libreyolo::worker
