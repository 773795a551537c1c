#include "server/daemon/store/blob_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using libreyolo::testing::FailsWith;
using libreyolo::testing::TempDir;

class BlobStoreTest : public ::testing::Test {
 protected:
  int FileCount() {
    int count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path()))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  }

  TempDir dir_;
  const BlobStore store_{dir_ / "blobs", 100};
  const std::string digest_ = Sha256Hex("hello world");
};

TEST_F(BlobStoreTest, BlobExistsOnlyOnceItIsWhole) {
  ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, 11));
  ASSERT_OK(writer->Append("hello "));
  EXPECT_FALSE(store_.Has(digest_));
  ASSERT_OK(writer->Append("world"));
  ASSERT_OK(writer->Finish());
  EXPECT_TRUE(store_.Has(digest_));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(store_.Path(digest_)));
  EXPECT_EQ(text, "hello world");
  writer.reset();
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(BlobStoreTest, WrongContentIsRefusedAndRemoved) {
  ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, 11));
  ASSERT_OK(writer->Append("hello_world"));
  EXPECT_THAT(writer->Finish(), FailsWith(reason::kDigestMismatch));
  writer.reset();
  EXPECT_FALSE(store_.Has(digest_));
  EXPECT_EQ(FileCount(), 0);
}

TEST_F(BlobStoreTest, ShortContentIsRefused) {
  ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(Sha256Hex("hello"), 11));
  ASSERT_OK(writer->Append("hello"));
  EXPECT_THAT(writer->Finish(), FailsWith(reason::kDigestMismatch));
}

TEST_F(BlobStoreTest, MoreThanAnnouncedOrAllowedIsRefused) {
  ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, 4));
  EXPECT_THAT(writer->Append("hello"), FailsWith(reason::kLimitExceeded));
  EXPECT_THAT(store_.Begin(digest_, 101), FailsWith(reason::kLimitExceeded));
  EXPECT_THAT(store_.Begin(digest_, -1), FailsWith(reason::kLimitExceeded));
  EXPECT_THAT(store_.Begin("../../x", 1), FailsWith(reason::kArgumentInvalid));
  EXPECT_FALSE(store_.Has("../../x"));
}

TEST_F(BlobStoreTest, SweepRemovesCutOffUploadsAndKeepsBlobs) {
  ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, 11));
  ASSERT_OK(writer->Append("hello world"));
  ASSERT_OK(writer->Finish());
  dir_.Write("blobs/" + digest_.substr(0, 2) + "/" + digest_ + ".aB3xYz", "hel");
  store_.Sweep();
  EXPECT_TRUE(store_.Has(digest_));
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(BlobStoreTest, AnUploadThatADaemonsEndCutsOffIsSweptAndCanBeSentAgain) {
  const pid_t child = fork();
  if (child == 0) {
    auto writer = store_.Begin(digest_, 11);
    if (writer.ok()) (void)(*writer)->Append("hello ");
    _exit(0);  // as SIGKILL: no destructor runs
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(FileCount(), 1);
  EXPECT_FALSE(store_.Has(digest_));
  store_.Sweep();
  EXPECT_EQ(FileCount(), 0);
  ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, 11));
  ASSERT_OK(writer->Append("hello world"));
  ASSERT_OK(writer->Finish());
  EXPECT_TRUE(store_.Has(digest_));
}

class PartialUploadTest : public ::testing::Test {
 protected:
  // An upload of alice's that breaks off after `bytes`.
  void BreakOff(size_t bytes) {
    ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, kSize, "alice"));
    ASSERT_OK(writer->Append(content_.substr(0, bytes)));
  }

  static constexpr int64_t kSize = 300'000;
  TempDir dir_;
  const BlobStore store_{dir_ / "blobs", 1 << 20};
  const std::string content_ = std::string(kSize, 'x');
  const std::string digest_ = Sha256Hex(content_);
};

TEST_F(PartialUploadTest, GoesOnWhereItBroke) {
  BreakOff(200'000);
  EXPECT_EQ(store_.Received("alice", digest_), 200'000);
  EXPECT_EQ(store_.Received("bob", digest_), 0);
  EXPECT_EQ(store_.PartialBytes("alice", ""), 200'000);
  EXPECT_EQ(store_.PartialBytes("alice", digest_), 0);
  ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, kSize, "alice", 150'000));
  EXPECT_EQ(store_.Received("alice", digest_), 0) << "it is being written";
  ASSERT_OK(writer->Append(content_.substr(150'000)));
  ASSERT_OK(writer->Finish());
  EXPECT_TRUE(store_.Has(digest_));
  EXPECT_EQ(store_.PartialBytes("alice", ""), 0);
}

TEST_F(PartialUploadTest, LittleIsNotKept) {
  BreakOff(1000);
  EXPECT_EQ(store_.Received("alice", digest_), 0);
}

TEST_F(PartialUploadTest, OffsetsThatDoNotFitAreRefused) {
  BreakOff(200'000);
  EXPECT_THAT(store_.Begin(digest_, kSize, "alice", 200'001).status(),
              FailsWith(reason::kArgumentOutOfRange));
  EXPECT_THAT(store_.Begin(digest_, kSize, "bob", 1).status(),
              FailsWith(reason::kArgumentOutOfRange));
  EXPECT_THAT(store_.Begin(digest_, kSize, "alice", -1).status(),
              FailsWith(reason::kArgumentOutOfRange));
  EXPECT_EQ(store_.Received("alice", digest_), 200'000);
}

TEST_F(PartialUploadTest, TwoAtOnceDoNotMix) {
  BreakOff(200'000);
  ASSERT_OK_AND_ASSIGN(const auto first, store_.Begin(digest_, kSize, "alice", 200'000));
  EXPECT_THAT(store_.Begin(digest_, kSize, "alice", 200'000).status(), FailsWith(reason::kBusy));
  ASSERT_OK_AND_ASSIGN(auto whole, store_.Begin(digest_, kSize, "alice"));
  ASSERT_OK(whole->Append(content_));
  EXPECT_OK(whole->Finish());
}

TEST_F(PartialUploadTest, AnotherContentIsThrownAway) {
  BreakOff(200'000);
  {
    ASSERT_OK_AND_ASSIGN(auto writer, store_.Begin(digest_, kSize, "alice", 200'000));
    ASSERT_OK(writer->Append(std::string(100'000, 'y')));
    EXPECT_THAT(writer->Finish(), FailsWith(reason::kDigestMismatch));
  }
  EXPECT_EQ(store_.Received("alice", digest_), 0);
  EXPECT_FALSE(store_.Has(digest_));
}

TEST_F(PartialUploadTest, ADayLaterItIsGone) {
  BreakOff(200'000);
  store_.SweepPartial(absl::Now() + absl::Hours(23));
  EXPECT_EQ(store_.Received("alice", digest_), 200'000);
  store_.SweepPartial(absl::Now() + absl::Hours(25));
  EXPECT_EQ(store_.Received("alice", digest_), 0);
}

TEST_F(PartialUploadTest, AFullDiskIsSaidBefore) {
  const BlobStore strict(dir_ / "blobs", 1 << 20, int64_t{1} << 60);
  EXPECT_THAT(strict.Begin(digest_, kSize, "alice").status(), FailsWith(reason::kDiskFull));
}

}  // namespace
}  // namespace libreyolo::daemon
