// Indexes that earlier versions left are read and brought up to date; a later one's is not touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/sqlite.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using libreyolo::testing::FailsWith;
using libreyolo::testing::TempDir;
using ::testing::HasSubstr;

constexpr char kEnded[] = "20261130T080000-0000bbbb";
constexpr char kWaiting[] = "20261130T090000-0000aaaa";

class IndexCompatTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const std::string sql,
                         ReadFile(absl::StrCat(LIBREYOLO_SOURCE_DIR, "/tests/data/compat/index_v",
                                               GetParam(), ".sql")));
    ASSERT_OK_AND_ASSIGN(const auto db, Sqlite::Open(path_));
    ASSERT_OK(db->Execute(sql.c_str()));
  }

  TempDir dir_;
  const std::string path_ = dir_ / "index.sqlite";
};

TEST_P(IndexCompatTest, JobsAndProjectsOfAnEarlierVersionAreKept) {
  for (int open = 0; open < 2; ++open) {  // the second time there is nothing to bring up to date
    ASSERT_OK_AND_ASSIGN(const auto index, Index::Open(path_));
    ASSERT_OK_AND_ASSIGN(const auto ended, index->Find(kEnded));
    ASSERT_TRUE(ended.has_value());
    EXPECT_EQ(ended->job.state(), v1::JOB_STATE_SUCCEEDED);
    EXPECT_EQ(ended->job.profile(), "runs/profile/infer/profile.json");
    EXPECT_EQ(ended->request_id, "first");
    ASSERT_OK_AND_ASSIGN(const auto waiting, index->LoadActive());
    ASSERT_EQ(waiting.size(), 1U);
    EXPECT_EQ(waiting[0].job.id(), kWaiting);
    ASSERT_OK_AND_ASSIGN(const auto events, index->Events(kEnded, 0));
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].sequence(), 7);
    ASSERT_OK_AND_ASSIGN(const auto projects, index->Projects());
    ASSERT_EQ(projects.size(), 1U);
    EXPECT_EQ(projects[0].project, "runs/profile");
  }
}

TEST_P(IndexCompatTest, WhatThisVersionWritesWorksInIt) {
  ASSERT_OK_AND_ASSIGN(const auto index, Index::Open(path_));
  v1::ProfileInfo info;
  info.set_path("runs/profile/infer/profile.json");
  info.set_size_bytes(12);
  info.set_replaced(true);
  ASSERT_OK(index->SetProfiles({"", "runs/profile"}, {info}));
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, index->HistoryBytes({"", "runs/profile"}));
  EXPECT_EQ(bytes, 12);
  ASSERT_OK_AND_ASSIGN(auto record, index->Find(kWaiting));
  record->job.set_state(v1::JOB_STATE_CANCELLED);
  ASSERT_OK(index->Put(*record, nullptr));
  ASSERT_OK_AND_ASSIGN(const auto active, index->LoadActive());
  EXPECT_TRUE(active.empty());
}

TEST_P(IndexCompatTest, EndedJobsOfAnEarlierVersionCountToo) {
  ASSERT_OK_AND_ASSIGN(const auto index, Index::Open(path_));
  ASSERT_OK(index->CountEnded([](const std::string&) { return 1000; }));
  ASSERT_OK_AND_ASSIGN(const auto rest, index->CountEnded([](const std::string&) { return 0; }));
  EXPECT_TRUE(rest.empty());
  ASSERT_OK_AND_ASSIGN(const auto over, index->PrincipalsOver(1000));
  EXPECT_EQ(over, std::vector<std::string>{"alice"});
  // The one that waits counts once it has ended.
  ASSERT_OK_AND_ASSIGN(auto record, index->Find(kWaiting));
  record->job.set_state(v1::JOB_STATE_CANCELLED);
  ASSERT_OK(index->Put(*record, nullptr));
  ASSERT_OK_AND_ASSIGN(const auto more, index->CountEnded([](const std::string&) { return 0; }));
  EXPECT_EQ(more, std::vector<std::string>{kWaiting});
  ASSERT_OK_AND_ASSIGN(const auto gone, index->ForgetEnded("alice", 1000, {}));
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].id, kEnded);
}

TEST_P(IndexCompatTest, ALaterVersionsIndexIsRefusedAndNotTouched) {
  {
    ASSERT_OK_AND_ASSIGN(const auto db, Sqlite::Open(path_));
    ASSERT_OK(db->Execute("PRAGMA user_version = 1000"));
  }
  ASSERT_OK_AND_ASSIGN(const std::string before, ReadFile(path_));
  const auto index = Index::Open(path_);
  EXPECT_THAT(index, FailsWith(reason::kStoreFailed));
  EXPECT_THAT(std::string(index.status().message()), HasSubstr("newer libreyolod (schema 1000"));
  ASSERT_OK_AND_ASSIGN(const std::string after, ReadFile(path_));
  EXPECT_EQ(before, after);
}

INSTANTIATE_TEST_SUITE_P(Schemas, IndexCompatTest, ::testing::Values(1, 2, 3, 4, 5),
                         [](const auto& info) { return absl::StrCat("V", info.param); });

}  // namespace
}  // namespace libreyolo::daemon
