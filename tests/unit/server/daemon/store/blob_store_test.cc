#include "server/daemon/store/blob_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

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

}  // namespace
}  // namespace libreyolo::daemon
