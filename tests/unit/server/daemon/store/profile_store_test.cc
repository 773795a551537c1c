#include "server/daemon/store/profile_store.h"

#include <gtest/gtest.h>
#include <utime.h>

#include <filesystem>

#include "common/base/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/store/result_tree.h"

namespace libreyolo::daemon {
namespace {

using libreyolo::testing::FailsWith;
using libreyolo::testing::TempDir;
using ::testing::HasSubstr;

constexpr int64_t kForeignTime = 1'796'014'326;
constexpr char kForeignName[] = "20261130T045206Z";  // the same in words

class ProfileStoreTest : public ::testing::Test {
 protected:
  void CommitNew(const std::string& job, const ResultNames& names) {
    Stage(project_, job, names);
    ASSERT_OK(store_.Commit(project_, job, names));
  }
  void SetTimeOf(const std::string& place, int64_t seconds) {
    const utimbuf times{seconds, seconds};
    ASSERT_EQ(utime((project_ + "/" + place).c_str(), &times), 0);
  }
  std::string InHistory(const std::string& name) { return "history/" + name; }

  TempDir dir_;
  const std::string project_ = dir_ / "runs/profile";
  ProfileStore store_{dir_ / "locks"};
  const ResultNames single_{"infer", 1};
  const ResultNames three_{"infer", 3};
  const ResultNames five_{"infer", 5};
};

TEST_F(ProfileStoreTest, NamesAreThoseOfTheContract) {
  EXPECT_EQ(single_.Profile(), "infer/profile.json");
  EXPECT_EQ(three_.Profile(), "infer_repeat.json");
  EXPECT_EQ((ResultNames{"prof", 2}.Entries()),
            (std::vector<std::string>{"prof_0", "prof_1", "profile_repeat.json"}));
}

TEST_F(ProfileStoreTest, FirstResultLeavesNothingBeside) {
  CommitNew("j1", single_);
  EXPECT_EQ(ReadTree(project_), Entries("", "j1", single_));
}

TEST_F(ProfileStoreTest, ReplacedResultsMoveToTheirHistory) {
  for (const char* job : {"j1", "j2", "j3"}) CommitNew(job, single_);
  EXPECT_EQ(ReadTree(project_),
            Both(Entries("", "j3", single_),
                 Both(Entries("history/j1", "j1", single_), Entries("history/j2", "j2", single_))));
}

TEST_F(ProfileStoreTest, ShorterRepeatMovesTheLongerOneWhole) {
  CommitNew("j5", five_);
  CommitNew("j3", three_);
  EXPECT_EQ(ReadTree(project_),
            Both(Entries("", "j3", three_), Entries("history/j5", "j5", five_)));
}

TEST_F(ProfileStoreTest, SingleRunRepeatAndTrainingStandBesideEachOther) {
  const ResultNames training{"prof", 2};
  CommitNew("j1", single_);
  CommitNew("j3", three_);
  CommitNew("t1", training);
  EXPECT_EQ(ReadTree(project_), Both(Entries("", "j1", single_),
                                     Both(Entries("", "j3", three_), Entries("", "t1", training))));
}

TEST_F(ProfileStoreTest, ReportsEveryPlaceThatChanged) {
  CommitNew("j1", single_);
  Stage(project_, "j2", single_);
  std::vector<std::string> changes;
  ASSERT_OK(store_.Commit(project_, "j2", single_, &changes));
  EXPECT_EQ(changes, (std::vector<std::string>{"infer", "history/j1/infer"}));
}

TEST_F(ProfileStoreTest, ForeignRepeatMovesTogetherUnderItsFileTime) {
  WriteResult(project_, "", three_);
  SetTimeOf("infer_repeat.json", kForeignTime);
  for (int i = 0; i < 3; ++i)
    SetTimeOf("infer_" + std::to_string(i) + "/profile.json", kForeignTime - 60 * (3 - i));
  CommitNew("j1", three_);
  EXPECT_EQ(ReadTree(project_),
            Both(Entries("", "j1", three_), Entries(InHistory(kForeignName), "", three_)));
}

TEST_F(ProfileStoreTest, ForeignResultsOfOneTimeGetDifferentNames) {
  for (const char* job : {"j1", "j2"}) {
    std::filesystem::remove_all(project_ + "/infer");
    WriteResult(project_, "", single_);
    SetTimeOf("infer/profile.json", kForeignTime);
    CommitNew(job, single_);
  }
  EXPECT_EQ(ReadTree(project_), Both(Entries("", "j2", single_),
                                     Both(Entries(InHistory(kForeignName), "", single_),
                                          Entries(InHistory(kForeignName) + "-1", "", single_))));
}

TEST_F(ProfileStoreTest, JobThatIsNoFolderNameIsNotUsedAsOne) {
  WriteResult(project_, "../../../out", single_);
  SetTimeOf("infer/profile.json", kForeignTime);
  CommitNew("j1", single_);
  EXPECT_EQ(ReadTree(project_), Both(Entries("", "j1", single_),
                                     Entries(InHistory(kForeignName), "../../../out", single_)));
}

TEST_F(ProfileStoreTest, FileUnderAResultsNameIsKeptInTheHistory) {
  dir_.Write("runs/profile/infer", "notes of mine");
  SetTimeOf("infer", kForeignTime);
  CommitNew("j1", single_);
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadFile(project_ + "/" + InHistory(kForeignName) + "/infer"));
  EXPECT_EQ(text, "notes of mine");
}

TEST_F(ProfileStoreTest, FoldersThatOnlyLookLikeTrialsStay) {
  CommitNew("j5", five_);
  for (const char* name : {"infer_x", "infer_", "infer_01", "infer_1b"})
    WriteResult(project_, "mine", {name, 1});
  CommitNew("j3", three_);
  const Tree tree = ReadTree(project_);
  for (const char* name : {"infer_x", "infer_", "infer_01", "infer_1b"})
    EXPECT_EQ(tree.count(name), 1U) << name;
}

TEST_F(ProfileStoreTest, IncompleteStagingIsRefusedBeforeAnythingMoves) {
  CommitNew("j1", three_);
  Stage(project_, "j2", three_);
  std::filesystem::remove(project_ + "/.staging/j2/infer_1/profile.json");
  const absl::Status status = store_.Commit(project_, "j2", three_);
  EXPECT_THAT(status, FailsWith(reason::kStoreFailed));
  EXPECT_THAT(std::string(status.message()), HasSubstr("infer_1"));
  store_.Discard(project_, "j2");
  EXPECT_EQ(ReadTree(project_), Entries("", "j1", three_));
}

TEST_F(ProfileStoreTest, RecoverSweepsUndecidedStagingOfOurJobsOnly) {
  CommitNew("j1", single_);
  Stage(project_, "ours", single_);
  Stage(project_, "theirs", single_);
  ASSERT_OK_AND_ASSIGN(const auto recovered, store_.Recover(project_, [](const std::string& id) {
    return id == "ours";
  }));
  EXPECT_TRUE(recovered.empty());
  EXPECT_EQ(ReadTree(project_),
            Both(Entries("", "j1", single_), Entries(".staging/theirs", "theirs", single_)));
}

TEST_F(ProfileStoreTest, RecoverRemovesAnEmptyStagingFolder) {
  CommitNew("j1", single_);
  std::filesystem::create_directory(project_ + "/.staging");
  ASSERT_OK(store_.Recover(project_));
  EXPECT_FALSE(std::filesystem::exists(project_ + "/.staging"));
}

TEST_F(ProfileStoreTest, AnEndBetweenTheLastTrialAndItsRepeatFileKeepsTheOldRepeat) {
  CommitNew("j1", three_);
  const std::string repeat = project_ + "/.staging/j2/" + three_.RepeatFile();
  for (const char* what : {"not begun", "half written"}) {
    Stage(project_, "j2", three_);
    std::filesystem::remove(repeat);
    if (std::string(what) == "half written") ASSERT_OK(WriteFile(repeat, "{\"job\": \"j2"));
    ASSERT_OK_AND_ASSIGN(const auto recovered, store_.Recover(project_));
    EXPECT_TRUE(recovered.empty()) << what;
    EXPECT_EQ(ReadTree(project_), Entries("", "j1", three_)) << what;
  }
}

TEST_F(ProfileStoreTest, TellsWhetherAJobsResultIsCommitted) {
  CommitNew("j1", three_);
  Stage(project_, "j2", three_);
  EXPECT_TRUE(ProfileStore::IsCommitted(project_, "j1", three_));
  EXPECT_FALSE(ProfileStore::IsCommitted(project_, "j2", three_));
  ASSERT_OK(store_.Commit(project_, "j2", three_));
  EXPECT_TRUE(ProfileStore::IsCommitted(project_, "j1", three_));  // now in the history
  EXPECT_TRUE(ProfileStore::IsCommitted(project_, "j2", three_));
}

}  // namespace
}  // namespace libreyolo::daemon
