#include "server/daemon/store/index.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "server/daemon/store/sqlite.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using libreyolo::testing::FailsWith;
using libreyolo::testing::TempDir;
using ::testing::HasSubstr;

JobRecord Job(const std::string& id, v1::JobState state, const std::string& request = "",
              const std::string& principal = "me") {
  JobRecord record;
  record.job.set_id(id);
  record.job.set_state(state);
  record.job.set_principal(principal);
  record.request_id = request;
  record.spec_digest = "digest of " + id;
  record.device = "cpu";
  record.sequence_reserved = 7;
  record.worker_pid = 99;
  record.worker_start_ticks = 1234567890123;
  return record;
}

v1::ProfileInfo Profile(const std::string& path, int64_t seconds, bool replaced, int64_t size) {
  v1::ProfileInfo info;
  info.set_path(path);
  info.mutable_time()->set_seconds(seconds);
  info.set_replaced(replaced);
  info.set_size_bytes(size);
  return info;
}

class IndexTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    index_.reset();
    auto index = Index::Open(path_);
    ASSERT_OK(index);
    index_ = *std::move(index);
  }
  std::vector<std::string> Ids(const absl::StatusOr<std::vector<JobRecord>>& records) {
    std::vector<std::string> ids;
    EXPECT_OK(records);
    if (!records.ok()) return ids;
    for (const JobRecord& record : *records) ids.push_back(record.job.id());
    return ids;
  }
  std::vector<std::string> Paths(const absl::StatusOr<std::vector<v1::ProfileInfo>>& profiles) {
    std::vector<std::string> paths;
    EXPECT_OK(profiles);
    if (!profiles.ok()) return paths;
    for (const v1::ProfileInfo& info : *profiles) paths.push_back(info.path());
    return paths;
  }

  using Strings = std::vector<std::string>;
  TempDir dir_;
  const std::string path_ = dir_ / "index.sqlite";
  std::unique_ptr<Index> index_;
};

TEST_F(IndexTest, JobsOutliveTheDaemonWithEveryField) {
  ASSERT_OK(index_->Put(Job("a", v1::JOB_STATE_MEASURING, "r1"), nullptr));
  Open();
  ASSERT_OK_AND_ASSIGN(const auto found, index_->Find("a"));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->job.state(), v1::JOB_STATE_MEASURING);
  EXPECT_EQ(found->request_id, "r1");
  EXPECT_EQ(found->spec_digest, "digest of a");
  EXPECT_EQ(found->device, "cpu");
  EXPECT_EQ(found->sequence_reserved, 7);
  EXPECT_EQ(found->worker_pid, 99);
  EXPECT_EQ(found->worker_start_ticks, 1234567890123);
  ASSERT_OK_AND_ASSIGN(const auto absent, index_->Find("b"));
  EXPECT_FALSE(absent.has_value());
}

TEST_F(IndexTest, ActiveJobsComeInTheOrderOfTheirCreation) {
  for (const char* id : {"c", "a", "b"})
    ASSERT_OK(index_->Put(Job(id, v1::JOB_STATE_QUEUED), nullptr));
  ASSERT_OK(index_->Put(Job("a", v1::JOB_STATE_FAILED), nullptr));
  Open();
  EXPECT_EQ(Ids(index_->LoadActive()), (Strings{"c", "b"}));
  EXPECT_EQ(Ids(index_->List({"", 10, false})), (Strings{"b", "a", "c"}));
}

TEST_F(IndexTest, RequestIdsBelongToTheirPrincipal) {
  ASSERT_OK(index_->Put(Job("a", v1::JOB_STATE_QUEUED, "r", "me"), nullptr));
  ASSERT_OK(index_->Put(Job("b", v1::JOB_STATE_QUEUED, "r", "you"), nullptr));
  EXPECT_THAT(index_->Put(Job("c", v1::JOB_STATE_QUEUED, "r", "me"), nullptr),
              FailsWith(reason::kStoreFailed));
  ASSERT_OK_AND_ASSIGN(const auto found, index_->FindByRequest("you", "r"));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->job.id(), "b");
  // The refused one left nothing, and the index still takes others.
  ASSERT_OK(index_->Put(Job("d", v1::JOB_STATE_QUEUED), nullptr));
  EXPECT_EQ(Ids(index_->LoadActive()), (Strings{"a", "b", "d"}));
}

TEST_F(IndexTest, ListsInPages) {
  for (int i = 0; i < 5; ++i)
    ASSERT_OK(index_->Put(Job("j" + std::to_string(i), v1::JOB_STATE_QUEUED), nullptr));
  EXPECT_EQ(Ids(index_->List({"", 2, false})), (Strings{"j4", "j3"}));
  EXPECT_EQ(Ids(index_->List({"j3", 9, false})), (Strings{"j2", "j1", "j0"}));
  EXPECT_THAT(index_->List({"nobody", 2, false}), FailsWith(reason::kArgumentInvalid));
}

TEST_F(IndexTest, EventsComeAfterASequenceAndGoWithTheirJob) {
  for (int i = 1; i <= 3; ++i) {
    v1::JobEvent event;
    event.set_sequence(i);
    ASSERT_OK(index_->Put(Job("a", v1::JOB_STATE_QUEUED), &event));
  }
  ASSERT_OK_AND_ASSIGN(auto events, index_->Events("a", 1));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].sequence(), 2);
  ASSERT_OK(index_->Delete("a"));
  ASSERT_OK_AND_ASSIGN(events, index_->Events("a", 0));
  EXPECT_TRUE(events.empty());
}

TEST_F(IndexTest, ProfilesAreUpdatedByPlace) {
  const Index::Project project{"", "runs/profile"};
  ASSERT_OK(
      index_->SetProfiles(project, {Profile("runs/profile/infer/profile.json", 1, false, 5)}));
  ASSERT_OK(
      index_->UpdateProfiles(project, {"runs/profile/infer/profile.json"},
                             {Profile("runs/profile/infer/profile.json", 3, false, 5),
                              Profile("runs/profile/history/j1/infer/profile.json", 1, true, 70)}));
  EXPECT_EQ(Paths(index_->ListProfiles("", false, 0, 10)),
            (Strings{"runs/profile/infer/profile.json"}));
  EXPECT_EQ(
      Paths(index_->ListProfiles("", true, 0, 10)),
      (Strings{"runs/profile/infer/profile.json", "runs/profile/history/j1/infer/profile.json"}));
  EXPECT_EQ(Paths(index_->ListProfiles("other", true, 0, 10)), Strings{});
  EXPECT_EQ(Paths(index_->ProjectProfiles(project)).size(), 2U);
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, index_->HistoryBytes(project));
  EXPECT_EQ(bytes, 70);
  ASSERT_OK_AND_ASSIGN(const int64_t none, index_->HistoryBytes({"", "elsewhere"}));
  EXPECT_EQ(none, 0);
}

TEST_F(IndexTest, NewerSchemaIsRefusedWithTheWaysOut) {
  index_.reset();
  {
    ASSERT_OK_AND_ASSIGN(const auto db, Sqlite::Open(path_));
    ASSERT_OK(db->Execute("PRAGMA user_version = 99"));
  }
  const auto index = Index::Open(path_);
  EXPECT_THAT(index, FailsWith(reason::kStoreFailed));
  EXPECT_THAT(std::string(index.status().message()), HasSubstr("newer libreyolod"));
}

TEST_F(IndexTest, FirstSchemaIsBroughtUpAndKeepsItsJobs) {
  ASSERT_OK(index_->Put(Job("a", v1::JOB_STATE_QUEUED), nullptr));
  index_.reset();
  {
    ASSERT_OK_AND_ASSIGN(const auto db, Sqlite::Open(path_));
    ASSERT_OK(
        db->Execute("DROP TABLE ended_jobs; DROP TABLE ended_totals; DROP TABLE results;"
                    "DROP TABLE uploads; DROP INDEX profiles_by_project;"
                    "ALTER TABLE profiles DROP COLUMN size_bytes; PRAGMA user_version = 1"));
  }
  Open();
  EXPECT_EQ(Ids(index_->LoadActive()), Strings{"a"});
  ASSERT_OK(index_->HistoryBytes({"", "runs"}));
}

TEST_F(IndexTest, DamagedFileIsRefusedWithSqlitesWords) {
  index_.reset();
  ASSERT_OK(WriteFile(path_, std::string(4096, 'x')));
  const auto index = Index::Open(path_);
  EXPECT_THAT(index, FailsWith(reason::kStoreFailed));
  EXPECT_THAT(std::string(index.status().message()), HasSubstr("not a database"));
}

TEST(SqliteTest, FullFileFailsOneTransactionAndNotTheNext) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const auto db, Sqlite::Open(dir / "full.sqlite"));
  ASSERT_OK(db->Execute("CREATE TABLE t (x BLOB); PRAGMA max_page_count = 4"));
  const absl::Status full = db->InTransaction([&]() -> absl::Status {
    LY_RETURN_IF_ERROR(db->Execute("INSERT INTO t VALUES ('small')"));
    return db->Execute("INSERT INTO t VALUES (zeroblob(100000))");
  });
  EXPECT_THAT(full, FailsWith(reason::kStoreFailed));
  EXPECT_THAT(std::string(full.message()), HasSubstr("full"));
  ASSERT_OK(db->Execute("PRAGMA max_page_count = 1000"));
  ASSERT_OK(db->InTransaction([&] { return db->Execute("INSERT INTO t VALUES ('next')"); }));
  ASSERT_OK_AND_ASSIGN(Statement count, db->Prepare("SELECT COUNT(*), MAX(x) FROM t"));
  ASSERT_OK_AND_ASSIGN(const bool row, count.Step());
  ASSERT_TRUE(row);
  EXPECT_EQ(count.Int(0), 1);
  EXPECT_EQ(count.Text(1), "next");
}

}  // namespace
}  // namespace libreyolo::daemon
