#include "server/daemon/store/job_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/layout.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using libreyolo::testing::FailsWith;
using libreyolo::testing::TempDir;
using Strings = std::vector<std::string>;

constexpr int64_t kKiB = 1024;

class JobRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeDirectories(layout_.JobLogDir(), 0700));
    Open();
  }
  void Open() {
    index_.reset();
    auto index = Index::Open(dir_ / "index.sqlite", [this](const std::string& point) {
      return point == "index commit" ? commit_error_ : absl::OkStatus();
    });
    ASSERT_OK(index);
    index_ = *std::move(index);
  }
  JobRecord Record(const std::string& id, v1::JobState state, int64_t spec_bytes) {
    JobRecord record;
    record.job.set_id(id);
    record.job.set_principal(id.substr(0, id.find('-')));
    record.job.set_state(state);
    record.job.mutable_spec()->set_project(std::string(static_cast<size_t>(spec_bytes), 'p'));
    return record;
  }
  // A job whose id begins with its principal.
  void Begin(const std::string& id, int64_t spec_bytes = 0) {
    ASSERT_OK(index_->Put(Record(id, v1::JOB_STATE_QUEUED, spec_bytes), nullptr));
  }
  void WriteLog(const std::string& id, int64_t log_bytes) {
    ASSERT_OK(WriteFile(layout_.JobLog(id), std::string(static_cast<size_t>(log_bytes), 'x')));
  }
  void End(const std::string& id, int64_t limit_bytes, int64_t spec_bytes = 0) {
    const JobRecord record = Record(id, v1::JOB_STATE_FAILED, spec_bytes);
    v1::JobEvent event;
    event.set_sequence(9);
    *event.mutable_job() = record.job;
    event.mutable_job()->clear_spec();
    ASSERT_OK(index_->Put(record, &event));
    JobRecords(*index_, layout_, limit_bytes).OnEnded(record.job.principal(), id);
  }
  void Run(const std::string& id, int64_t log_bytes, int64_t limit_bytes, int64_t spec_bytes = 0) {
    Begin(id, spec_bytes);
    WriteLog(id, log_bytes);
    End(id, limit_bytes, spec_bytes);
  }
  void Sweep(int64_t limit_bytes) { JobRecords(*index_, layout_, limit_bytes).Sweep(); }

  // Newest first.
  Strings Jobs(const std::string& principal) {
    Strings ids;
    const auto records = index_->List({"", 10'000, false, principal});
    EXPECT_OK(records);
    if (!records.ok()) return ids;
    for (const JobRecord& record : *records) ids.push_back(record.job.id());
    return ids;
  }
  bool HasLog(const std::string& id) { return std::filesystem::exists(layout_.JobLog(id)); }

  absl::Status commit_error_;
  TempDir dir_;
  const Layout layout_{{dir_.path(), dir_ / "work", false}};
  std::unique_ptr<Index> index_;
};

TEST_F(JobRecordsTest, TheOldestGoWithEventsAndLogsAndNobodyElses) {
  constexpr int64_t kLimit = 100 * kKiB;
  Run("bob-1", 90 * kKiB, kLimit);
  for (const char* id : {"alice-1", "alice-2", "alice-3", "alice-4"}) Run(id, 30 * kKiB, kLimit);
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-4", "alice-3", "alice-2"}));
  EXPECT_FALSE(HasLog("alice-1"));
  EXPECT_TRUE(HasLog("alice-2"));
  ASSERT_OK_AND_ASSIGN(const auto events, index_->Events("alice-1", 0));
  EXPECT_TRUE(events.empty());
  ASSERT_OK_AND_ASSIGN(const auto kept, index_->Events("alice-2", 0));
  EXPECT_EQ(kept.size(), 1U);
  EXPECT_EQ(Jobs("bob"), Strings{"bob-1"});
  EXPECT_TRUE(HasLog("bob-1"));
}

TEST_F(JobRecordsTest, LargeSpecsCountLikeLogs) {
  for (const char* id : {"alice-1", "alice-2", "alice-3"}) Run(id, 0, 100 * kKiB, 45 * kKiB);
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-3", "alice-2"}));
}

TEST_F(JobRecordsTest, ResultsKeepTheirPinsAndTheirOrder) {
  for (const char* id : {"alice-1", "alice-2"}) ASSERT_OK(index_->NoteCommit("alice", id));
  ASSERT_OK(index_->SetPinned("alice", "alice-1", true));
  v1::ProfileInfo info;
  info.set_path("runs/profile.json");
  info.set_job("alice-1");
  ASSERT_OK(index_->SetProfiles({"alice", "runs"}, {info}));
  for (const char* id : {"alice-1", "alice-2"}) Run(id, 80 * kKiB, 100 * kKiB);
  EXPECT_EQ(Jobs("alice"), Strings{"alice-2"});
  ASSERT_OK_AND_ASSIGN(const auto result, index_->FindResult("alice", "alice-1"));
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->pinned);
  EXPECT_EQ(result->commit_order, 1);
  ASSERT_OK_AND_ASSIGN(const auto profiles, index_->ListProfiles("alice", true, 0, 10));
  ASSERT_EQ(profiles.size(), 1U);
  EXPECT_TRUE(profiles[0].pinned());
}

TEST_F(JobRecordsTest, NeitherActiveOnesNorTheLastToEndGo) {
  Begin("alice-1");
  Begin("alice-2");
  WriteLog("alice-1", 500 * kKiB);
  WriteLog("alice-2", 500 * kKiB);
  Run("alice-3", 80 * kKiB, 100 * kKiB);
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-3", "alice-2", "alice-1"}));
  // It began first, so it would be the first to go, but for its ending now.
  End("alice-1", 100 * kKiB);
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-3", "alice-2", "alice-1"}));
  Run("alice-4", 50 * kKiB, 100 * kKiB);
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-4", "alice-2"}));
  EXPECT_TRUE(HasLog("alice-2"));
}

TEST_F(JobRecordsTest, OneThatIsLargerThanTheLimitStaysUntilTheNext) {
  Run("alice-1", 300 * kKiB, kKiB);
  EXPECT_EQ(Jobs("alice"), Strings{"alice-1"});
  Run("alice-2", 300 * kKiB, kKiB);
  EXPECT_EQ(Jobs("alice"), Strings{"alice-2"});
  Sweep(kKiB);
  EXPECT_EQ(Jobs("alice"), Strings{"alice-2"});
}

TEST_F(JobRecordsTest, WithoutALimitNothingGoesAndALaterLimitCountsIt) {
  for (const char* id : {"alice-1", "alice-2", "alice-3"}) Run(id, 80 * kKiB, 0);
  Run("bob-1", kKiB, 0);
  Sweep(0);
  EXPECT_EQ(Jobs(""), (Strings{"bob-1", "alice-3", "alice-2", "alice-1"}));
  Open();
  Sweep(200 * kKiB);
  EXPECT_EQ(Jobs(""), (Strings{"bob-1", "alice-3", "alice-2"}));
  Sweep(100 * kKiB);
  EXPECT_EQ(Jobs(""), (Strings{"bob-1", "alice-3"}));
}

TEST_F(JobRecordsTest, ADeletedJobMakesRoom) {
  constexpr int64_t kLimit = 100 * kKiB;
  Run("alice-1", 40 * kKiB, kLimit);
  Run("alice-2", 40 * kKiB, kLimit);
  ASSERT_OK(index_->Delete("alice-2"));
  Run("alice-3", 40 * kKiB, kLimit);
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-3", "alice-1"}));
  for (const char* id : {"alice-1", "alice-3"}) ASSERT_OK(index_->Delete(id));
  ASSERT_OK_AND_ASSIGN(const auto over, index_->PrincipalsOver(0));
  EXPECT_TRUE(over.empty());
}

TEST_F(JobRecordsTest, WhatIsNotStoredKeepsItsLogAndGoesTheNextTime) {
  constexpr int64_t kLimit = 100 * kKiB;
  Run("alice-1", 80 * kKiB, kLimit);
  Begin("alice-2");
  WriteLog("alice-2", 80 * kKiB);
  ASSERT_OK(index_->Put(Record("alice-2", v1::JOB_STATE_FAILED, 0), nullptr));
  commit_error_ = absl::ResourceExhaustedError("full");
  JobRecords(*index_, layout_, kLimit).OnEnded("alice", "alice-2");
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-2", "alice-1"}));
  EXPECT_TRUE(HasLog("alice-1"));
  commit_error_ = absl::OkStatus();
  Run("alice-3", kKiB, kLimit);
  EXPECT_EQ(Jobs("alice"), (Strings{"alice-3", "alice-2"}));
  EXPECT_FALSE(HasLog("alice-1"));
}

TEST_F(JobRecordsTest, LogsThatNoJobHasAreSweptAndNothingElse) {
  Begin("alice-1");
  WriteLog("alice-1", 10);
  Run("alice-2", 10, 0);
  WriteLog("alice-gone", 10);
  dir_.Write("job_logs/notes.txt", "mine");
  Sweep(0);
  EXPECT_TRUE(HasLog("alice-1"));
  EXPECT_TRUE(HasLog("alice-2"));
  EXPECT_FALSE(HasLog("alice-gone"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "job_logs/notes.txt"));
}

TEST_F(JobRecordsTest, MoreThanOneTransactionTakesGoAllTheSame) {
  for (int i = 0; i < 450; ++i) Run(absl::StrCat("alice-", i), 0, 0);
  Sweep(1);
  EXPECT_EQ(Jobs("alice"), Strings{"alice-449"});
}

TEST_F(JobRecordsTest, TheFileDoesNotGrowWithWhatHasGone) {
  for (int i = 0; i < 200; ++i) Run(absl::StrCat("alice-", i), 0, 1024 * kKiB, 100 * kKiB);
  EXPECT_EQ(Jobs("alice").size(), 10U);
  index_.reset();  // the log of SQLite goes into the file
  EXPECT_LT(std::filesystem::file_size(dir_ / "index.sqlite"), 2048 * kKiB);
}

}  // namespace
}  // namespace libreyolo::daemon
