// Commits on the real store and index.
#include "server/daemon/jobs/store_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/store/result_tree.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class StoreStepsTest : public ::testing::Test {
 protected:
  StoreStepsTest() { Open(int64_t{5} << 30); }
  void Open(int64_t history_mention_bytes, RetentionLimits limits = {}) {
    steps_.reset();
    index_.reset();
    auto index = Index::Open(dir_ / "index.sqlite");
    EXPECT_OK(index);
    index_ = *std::move(index);
    retention_ = std::make_unique<Retention>(
        Retention::Deps{*index_, profiles_, layout_, holds_, clock_}, limits);
    steps_ = std::make_unique<StoreSteps>(layout_, profiles_, *index_, inputs_, *retention_,
                                          history_mention_bytes);
  }
  absl::StatusOr<CommittedResult> Commit(const std::string& job) {
    JobRecord record;
    record.job.set_id(job);
    record.job.set_state(profile::v1::JOB_STATE_ANALYZING);
    EXPECT_OK(index_->Put(record, nullptr));
    Stage(project_, job, {"infer", 1});
    const auto committed = steps_->Commit({job, "", "runs/p"}, spec_);
    record.job.set_state(profile::v1::JOB_STATE_SUCCEEDED);
    EXPECT_OK(index_->Put(record, nullptr));
    return committed;
  }
  std::vector<std::string> Listed() {
    const auto infos = index_->ListProfiles("", true, 0, 100);
    EXPECT_OK(infos);
    std::vector<std::string> listed;
    for (const auto& info : infos.value()) {
      listed.push_back(info.path() + " " + info.job() + (info.replaced() ? " replaced" : ""));
    }
    return listed;
  }

  TempDir dir_;
  const std::string project_ = dir_ / "ws/runs/p";
  const Layout layout_{{dir_ / "state", dir_ / "ws", true}};
  const BlobStore blobs_{layout_.BlobDir(), 1 << 20};
  const DeviceInventory devices_{MakeNvmlInventory(dir_ / "no-nvml.so"), ""};
  const JobInputs inputs_{layout_, blobs_, devices_, {}};
  ProfileStore profiles_{dir_ / "locks"};
  job::JobSpec spec_;
  const SystemClock clock_;
  ReadHolds holds_{clock_};
  std::unique_ptr<Index> index_;
  std::unique_ptr<Retention> retention_;
  std::unique_ptr<StoreSteps> steps_;
};

TEST_F(StoreStepsTest, ACommitListsTheResultAndWhatItReplaced) {
  ASSERT_OK_AND_ASSIGN(const CommittedResult result, Commit("j1"));
  EXPECT_EQ(result.profile, "runs/p/infer/profile.json");
  EXPECT_THAT(result.notes, IsEmpty());
  ASSERT_OK(Commit("j2"));
  EXPECT_THAT(Listed(), UnorderedElementsAre("runs/p/infer/profile.json j2",
                                             "runs/p/history/j1/infer/profile.json j1 replaced"));
}

TEST_F(StoreStepsTest, ACommitReadsOnlyWhatItChanged) {
  ASSERT_OK(Commit("j1"));
  ASSERT_OK(Commit("j2"));
  // Were the history read again, this would be missed.
  ASSERT_OK(WriteFile(project_ + "/history/j1/infer/profile.json", "no profile any more"));
  ASSERT_OK(Commit("j3"));
  EXPECT_THAT(Listed(), UnorderedElementsAre("runs/p/infer/profile.json j3",
                                             "runs/p/history/j2/infer/profile.json j2 replaced",
                                             "runs/p/history/j1/infer/profile.json j1 replaced"));
}

TEST_F(StoreStepsTest, AFailedCommitLeavesTheListAsTheFilesAre) {
  ASSERT_OK(Commit("j1"));
  // Staged without a profile of its own.
  EXPECT_THAT(steps_->Commit({"j2", "", "runs/p"}, spec_), FailsWith(reason::kStoreFailed));
  EXPECT_THAT(Listed(), ElementsAre("runs/p/infer/profile.json j1"));
}

TEST_F(StoreStepsTest, ALargeHistoryIsMentionedUntilItIsRemoved) {
  Open(/*history_mention_bytes=*/1);
  ASSERT_OK_AND_ASSIGN(const CommittedResult first, Commit("j1"));
  EXPECT_THAT(first.notes, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const CommittedResult second, Commit("j2"));
  EXPECT_THAT(second.notes, ElementsAre(HasSubstr("runs/p/history holds")));
  std::filesystem::remove_all(project_ + "/history");
  std::filesystem::remove_all(project_ + "/infer");
  ASSERT_OK_AND_ASSIGN(const CommittedResult third, Commit("j3"));
  EXPECT_THAT(third.notes, IsEmpty()) << "what the index knew was out of date";
  EXPECT_THAT(Listed(), ElementsAre("runs/p/infer/profile.json j3"));
}

TEST_F(StoreStepsTest, ACommitBringsItsWorkspaceWithinTheLimits) {
  RetentionLimits limits;
  limits.max_count = 2;
  Open(int64_t{5} << 30, limits);
  for (const char* job : {"j1", "j2", "j3"}) ASSERT_OK(Commit(job));
  EXPECT_THAT(Listed(), UnorderedElementsAre("runs/p/infer/profile.json j3",
                                             "runs/p/history/j2/infer/profile.json j2 replaced"));
  ASSERT_OK_AND_ASSIGN(const auto results, index_->Results(""));
  EXPECT_EQ(results.size(), 2U) << "of a removed one nothing is kept";
}

}  // namespace
}  // namespace libreyolo::daemon
