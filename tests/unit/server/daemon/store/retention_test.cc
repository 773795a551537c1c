// What retention removes and what it leaves, on a real index and real files.
#include "server/daemon/store/retention.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/store/result_tree.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using ::libreyolo::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class FakeClock : public Clock {
 public:
  absl::Duration Monotonic() const override { return monotonic; }
  absl::Time Wall() const override { return wall; }
  void Advance(absl::Duration by) {
    monotonic += by;
    wall += by;
  }
  absl::Duration monotonic = absl::Hours(5);
  absl::Time wall = absl::FromUnixSeconds(1'800'000'000);
};

class RetentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(index_, Index::Open(dir_ / "index.sqlite"));
    Limit({});
  }
  void Limit(RetentionLimits limits) {
    retention_ = std::make_unique<Retention>(
        Retention::Deps{*index_, profiles_, layout_, holds_, clock_}, limits);
  }
  std::string Project(const std::string& project) const { return dir_ / ("ws/" + project); }

  // As StoreSteps does; the files get the clock's time.
  void Commit(const std::string& job, int trials = 1, const std::string& project = "runs/p",
              bool ended = true) {
    const ResultNames names{"infer", trials};
    ASSERT_OK(index_->AddProject({"", project}));
    Stage(Project(project), job, names);
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(StagingDir(Project(project), job))) {
      const timespec time = absl::ToTimespec(clock_.Wall());
      const timespec times[] = {time, time};
      LY_CHECK(utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
    }
    ASSERT_OK(profiles_.Commit(Project(project), job, names));
    ASSERT_OK(index_->NoteCommit("", job));
    ASSERT_OK(index_->SetProfiles({"", project}, ScanProfiles(Project(project), project)));
    JobRecord record;
    record.job.set_id(job);
    record.job.set_state(ended ? v1::JOB_STATE_SUCCEEDED : v1::JOB_STATE_ANALYZING);
    ASSERT_OK(index_->Put(record, nullptr));
    clock_.Advance(absl::Minutes(1));
  }
  // Which jobs' results stand, by the index; that it agrees with the files is checked too.
  std::vector<std::string> Left() {
    std::set<std::string> jobs;
    const auto listed = index_->WorkspaceProfiles("");
    LY_CHECK(listed.ok());
    std::set<std::string> indexed;
    for (const Index::Listed& item : *listed) {
      jobs.insert(item.info.job());
      indexed.insert(item.info.path());
    }
    std::set<std::string> found;
    for (const char* project : {"runs/p", "runs/q"}) {
      for (const v1::ProfileInfo& info : ScanProfiles(Project(project), project))
        found.insert(info.path());
      EXPECT_FALSE(std::filesystem::exists(Project(project) + "/.staging"));
    }
    EXPECT_EQ(indexed, found);
    return {jobs.begin(), jobs.end()};
  }
  static RetentionLimits Count(int64_t count) {
    RetentionLimits limits;
    limits.max_count = count;
    return limits;
  }
  static RetentionLimits Age(absl::Duration age) {
    RetentionLimits limits;
    limits.max_age_seconds = absl::ToInt64Seconds(age);
    return limits;
  }

  TempDir dir_;
  FakeClock clock_;
  const Layout layout_{{dir_ / "state", dir_ / "ws", true}};
  ReadHolds holds_{clock_, absl::Seconds(10)};
  ProfileStore profiles_{dir_ / "locks"};
  std::unique_ptr<Index> index_;
  std::unique_ptr<Retention> retention_;
};

TEST_F(RetentionTest, NothingIsRemovedWithoutALimit) {
  for (const char* job : {"j1", "j2", "j3"}) Commit(job);
  clock_.Advance(absl::Hours(100'000));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j2", "j3"));
}

TEST_F(RetentionTest, ByCountTheOldestGoFirst) {
  Commit("j1", 1, "runs/q");
  for (const char* job : {"j2", "j3", "j4"}) Commit(job);
  Limit(Count(2));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j3", "j4"));
  EXPECT_EQ(retention_->counts().by_count, 2);
  // A second pass finds nothing to do.
  retention_->RunAll();
  EXPECT_EQ(retention_->counts().results(), 2);
  EXPECT_EQ(retention_->counts().failed, 0);
}

TEST_F(RetentionTest, ByBytesUntilTheRestFits) {
  for (const char* job : {"j1", "j2", "j3"}) Commit(job);
  ASSERT_OK_AND_ASSIGN(const auto listed, index_->WorkspaceProfiles(""));
  const int64_t each = listed[0].info.size_bytes();
  RetentionLimits limits;
  limits.max_bytes = 2 * each;
  Limit(limits);
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j2", "j3"));
  EXPECT_EQ(retention_->counts().by_bytes, 1);
  EXPECT_EQ(retention_->counts().bytes, each);
  limits.max_bytes = 1;
  Limit(limits);
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j3")) << "the newest stays, whatever its size";
}

TEST_F(RetentionTest, ByAgeOnlyWhatIsOlder) {
  Commit("j1");
  clock_.Advance(absl::Hours(10));
  Commit("j2");
  Commit("j3");
  Limit(Age(absl::Hours(12)));
  clock_.Advance(absl::Hours(1));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j2", "j3"));
  clock_.Advance(absl::Hours(1));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j2", "j3"));
  EXPECT_EQ(retention_->counts().by_age, 1);
  clock_.Advance(absl::Hours(1000));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j3")) << "the newest stays, however old";
}

TEST_F(RetentionTest, AClockThatIsSetRemovesNothingByAge) {
  Limit(Age(absl::Hours(24)));
  Commit("j1");
  Commit("j2");
  clock_.Advance(absl::Hours(2));
  retention_->RunAll();
  clock_.wall += absl::Hours(24 * 365);
  for (int minute = 0; minute < 59; ++minute) {
    clock_.Advance(absl::Minutes(1));
    retention_->RunAll();
  }
  EXPECT_THAT(Left(), ElementsAre("j1", "j2"));
  clock_.wall -= absl::Hours(24 * 365);  // somebody noticed
  for (int minute = 0; minute < 120; ++minute) {
    clock_.Advance(absl::Minutes(1));
    retention_->RunAll();
  }
  EXPECT_THAT(Left(), ElementsAre("j1", "j2"));
  EXPECT_EQ(retention_->counts().results(), 0);
}

TEST_F(RetentionTest, TheNewestIsTheOneCommittedLastAlsoWhenTheClockWentBack) {
  Commit("j1");
  Commit("j2");
  clock_.wall -= absl::Hours(24 * 365);
  Commit("j3");
  Limit(Count(1));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j3"));
}

TEST_F(RetentionTest, APinnedResultStaysUntilItsPinIsTakenBack) {
  Commit("j1");
  for (const char* job : {"j2", "j3", "j4"}) Commit(job);
  ASSERT_OK(index_->SetPinned("", "j1", true));
  Limit(Count(2));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j4")) << "a pinned one counts, but stays";
  // The index is opened again: as after a restart.
  index_.reset();
  ASSERT_OK_AND_ASSIGN(index_, Index::Open(dir_ / "index.sqlite"));
  Limit(Count(1));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j4"));
  ASSERT_OK(index_->SetPinned("", "j1", false));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j4"));
}

TEST_F(RetentionTest, ARepeatGoesWholeAndCountsAsOne) {
  Commit("j1", 3);
  Commit("j2", 2);
  Commit("j3");
  Limit(Count(2));
  EXPECT_THAT(Left(), ElementsAre("j1", "j2", "j3"));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j2", "j3"));
  EXPECT_EQ(ReadTree(Project("runs/p")),
            Both(Entries("", "j2", {"infer", 2}), Entries("", "j3", {"infer", 1})));
}

TEST_F(RetentionTest, AnyTrialThatIsReadKeepsTheWholeRepeat) {
  Commit("j1", 3);
  Commit("j2");
  Limit(Count(1));
  {
    const ReadHolds::Hold hold = holds_.OfFile(Project("runs/p") + "/infer_1/profile_trace.json");
    retention_->RunAll();
    EXPECT_THAT(Left(), ElementsAre("j1", "j2"));
    EXPECT_EQ(ReadTree(Project("runs/p")),
              Both(Entries("", "j1", {"infer", 3}), Entries("", "j2", {"infer", 1})));
  }
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j2")) << "the next of its files may be asked for";
  clock_.Advance(absl::Seconds(10));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j2"));
}

TEST_F(RetentionTest, WhatIsReadIsNotReplacedByANewerVictim) {
  for (const char* job : {"j1", "j2", "j3"}) Commit(job);
  const ReadHolds::Hold hold = holds_.OfFile(Project("runs/p") + "/history/j1/infer/profile.json");
  Limit(Count(2));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j2", "j3"));
}

TEST_F(RetentionTest, AHoldFollowsTheResultIntoTheHistory) {
  Commit("j1");
  const ReadHolds::Hold hold = holds_.OfFile(Project("runs/p") + "/infer/profile_trace.json");
  Commit("j2");
  Commit("j3");
  Limit(Count(1));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j3"));
}

TEST_F(RetentionTest, AWatchedJobsResultStays) {
  Commit("j1");
  Commit("j2");
  Limit(Count(1));
  const ReadHolds::Hold hold = holds_.OfJob("j1");
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j2"));
}

TEST_F(RetentionTest, AJobWithoutAnEndKeepsItsResult) {
  Commit("j1", 2, "runs/p", /*ended=*/false);
  Commit("j2");
  Limit(Count(1));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j1", "j2"));
}

TEST_F(RetentionTest, WhatNoJobOfThisStoreMadeStays) {
  WriteResult(Project("runs/p"), "", {"infer", 2});
  WriteResult(Project("runs/p") + "/history/fetched", "fetched", {"infer", 1});
  for (const char* job : {"j1", "j2"}) Commit(job);
  Limit(Count(1));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("", "fetched", "j2"));
}

TEST_F(RetentionTest, AProjectWhoseCommitWaitsIsLeftAlone) {
  Commit("j1");
  Commit("j2");
  Stage(Project("runs/p"), "j3", {"infer", 1});
  StoreHooks hooks;
  hooks.at = [](const std::string& point) -> absl::Status {
    return point == "sweep" ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  EXPECT_FALSE(
      ProfileStore(dir_ / "locks", hooks).Commit(Project("runs/p"), "j3", {"infer", 1}).ok());
  ASSERT_OK(index_->SetProfiles({"", "runs/p"}, ScanProfiles(Project("runs/p"), "runs/p")));
  Limit(Count(1));
  retention_->RunAll();
  EXPECT_EQ(retention_->counts().results(), 0);
  ASSERT_OK(profiles_.Recover(Project("runs/p")));
  ASSERT_OK(index_->NoteCommit("", "j3"));
  retention_->RunAll();
  EXPECT_THAT(Left(), ElementsAre("j3"));
}

TEST_F(RetentionTest, WhatCannotBeRemovedIsCountedAndLeft) {
  for (const char* job : {"j1", "j2"}) Commit(job);
  StoreHooks hooks;
  hooks.at = [](const std::string& point) -> absl::Status {
    return point == "begin removal" ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  ProfileStore failing(dir_ / "locks", hooks);
  Retention retention({*index_, failing, layout_, holds_, clock_}, Count(1));
  retention.RunAll();
  EXPECT_EQ(retention.counts().failed, 1);
  EXPECT_EQ(retention.counts().results(), 0);
  EXPECT_THAT(Left(), ElementsAre("j1", "j2"));
}

TEST(SteadyWallTest, SlowCorrectionIsNoStep) {
  FakeClock clock;
  SteadyWall wall(clock);
  for (int i = 0; i < 60; ++i) {
    clock.Advance(absl::Minutes(1));
    clock.wall += absl::Milliseconds(30);
    wall.Observe();
  }
  EXPECT_EQ(wall.Observe(), absl::Hours(1));
  clock.wall -= absl::Minutes(2);
  EXPECT_EQ(wall.Observe(), absl::ZeroDuration());
}

// ---- a removal that is cut off

constexpr int kCrashed = 42;

class RemovalCrashTest : public ::testing::TestWithParam<int> {
 protected:
  void Reset() {
    std::filesystem::remove_all(project_);
    WriteResult(GetParam() < 0 ? project_ + "/history/old" : project_, "old", names_);
    WriteResult(project_, "other", {"prof", 1});
  }
  static bool Always(const std::vector<std::string>&, absl::FunctionRef<void()> move) {
    move();
    return true;
  }
  static ProfileStore Store(const TempDir& dir,
                            std::function<absl::Status(const std::string&)> at) {
    StoreHooks hooks;
    hooks.at = std::move(at);
    return ProfileStore(dir / "locks", std::move(hooks));
  }
  bool CrashAt(int last, const std::function<void(ProfileStore&)>& body) {
    const pid_t child = fork();
    if (child == 0) {
      int count = 0;
      ProfileStore store = Store(dir_, [&](const std::string&) {
        if (count++ == last) _exit(kCrashed);
        return absl::OkStatus();
      });
      body(store);
      _exit(0);
    }
    int status = 0;
    LY_CHECK(waitpid(child, &status, 0) == child);
    LY_CHECK(WIFEXITED(status));
    return WEXITSTATUS(status) == kCrashed;
  }
  // True when it is gone; it must be there as a whole otherwise.
  bool ExpectWholeOrGone(const std::string& when) {
    const Tree other = Entries("", "other", {"prof", 1});
    Tree found = ReadTree(project_);
    const Tree whole = Both(other, Entries(GetParam() < 0 ? "history/old" : "", "old", names_));
    EXPECT_TRUE(found == whole || found == other)
        << when << ": " << ::testing::PrintToString(found);
    EXPECT_FALSE(std::filesystem::exists(project_ + "/.staging")) << when;
    return found == other;
  }

  TempDir dir_;
  const std::string project_ = dir_ / "project";
  const ResultNames names_{"infer", std::abs(GetParam())};
};

TEST_P(RemovalCrashTest, EndOfTheProcessAtAnyPointLeavesAllOrNothing) {
  const auto remove = [&](ProfileStore& store) { (void)store.Remove(project_, "old", &Always); };
  int kept = 0;
  int gone = 0;
  for (int at = 0;; ++at) {
    Reset();
    if (!CrashAt(at, remove)) break;
    ProfileStore store = Store(dir_, nullptr);
    ASSERT_OK(store.Recover(project_));
    const bool is_gone = ExpectWholeOrGone(absl::StrCat("point ", at));
    ++(is_gone ? gone : kept);
    for (int again = 0;; ++again) {  // and a second crash in the recovery
      Reset();
      ASSERT_TRUE(CrashAt(at, remove));
      if (!CrashAt(again, [&](ProfileStore& s) { (void)s.Recover(project_); })) break;
      ASSERT_OK(store.Recover(project_));
      EXPECT_EQ(ExpectWholeOrGone(absl::StrCat("points ", at, " and ", again)), is_gone);
    }
  }
  EXPECT_GT(kept, 1);
  EXPECT_GT(gone, 2);
  Reset();
  ProfileStore store = Store(dir_, nullptr);
  std::vector<std::string> changes;
  ASSERT_OK_AND_ASSIGN(const bool removed, store.Remove(project_, "old", &Always, &changes));
  EXPECT_TRUE(removed);
  EXPECT_EQ(changes.size(), names_.Entries().size());
  EXPECT_TRUE(ExpectWholeOrGone("the end"));
}

TEST_P(RemovalCrashTest, ErrorAtAnyPointIsCompletedByTheNextCall) {
  for (int at = 0;; ++at) {
    Reset();
    int count = 0;
    ProfileStore failing = Store(dir_, [&](const std::string& point) -> absl::Status {
      return count++ == at ? absl::ResourceExhaustedError("full at " + point) : absl::OkStatus();
    });
    std::vector<std::string> changes;
    const auto removed = failing.Remove(project_, "old", &Always, &changes);
    if (count <= at) break;
    if (!removed.ok() && changes.empty()) {
      EXPECT_FALSE(ExpectWholeOrGone(absl::StrCat("point ", at)));
      continue;
    }
    // A commit in the same project goes on with it, and is not kept from its own work.
    Stage(project_, "new", names_);
    ASSERT_OK(Store(dir_, nullptr).Commit(project_, "new", names_));
    EXPECT_EQ(ReadTree(project_),
              Both(Entries("", "new", names_), Entries("", "other", {"prof", 1})))
        << "point " << at;
  }
}

// Trials; a negative number stands for a result in the history.
INSTANTIATE_TEST_SUITE_P(Results, RemovalCrashTest, ::testing::Values(1, 3, -1, -2),
                         [](const auto& info) {
                           return absl::StrCat(info.param < 0 ? "Replaced" : "InPlace",
                                               std::abs(info.param));
                         });

}  // namespace
}  // namespace libreyolo::daemon
