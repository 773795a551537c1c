#include "server/daemon/store/upload_book.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;

class UploadBookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(index_, Index::Open(dir_.path() + "/index.sqlite"));
  }
  std::string Store(const std::string& text) {
    const std::string digest = Sha256Hex(text);
    auto writer = blobs_.Begin(digest, static_cast<int64_t>(text.size()));
    EXPECT_OK(writer.status());
    EXPECT_OK((*writer)->Append(text));
    EXPECT_OK((*writer)->Finish());
    return digest;
  }

  libreyolo::testing::TempDir dir_;
  const BlobStore blobs_{dir_.path() + "/blobs", 1000};
  std::unique_ptr<Index> index_;
};

TEST_F(UploadBookTest, ABlobIsTheirsWhoSentIt) {
  UploadBook book(*index_, blobs_, 0);
  const std::string digest = Store("content");
  EXPECT_FALSE(book.Owns("alice", digest));
  ASSERT_OK(book.Add("alice", digest, 7));
  EXPECT_TRUE(book.Owns("alice", digest));
  EXPECT_FALSE(book.Owns("bob", digest));
  EXPECT_THAT(book.CheckOwns("bob", digest, "a.pt"), FailsWith(reason::kBlobNotFound));
  EXPECT_FALSE(book.Owns("alice", Sha256Hex("other")));
}

TEST_F(UploadBookTest, UploadsUnderWayCount) {
  UploadBook book(*index_, blobs_, 100);
  ASSERT_OK(book.Add("alice", Store("content"), 40));
  {
    ASSERT_OK_AND_ASSIGN(const auto first, book.Reserve("alice", "alice", "d", 50));
    EXPECT_THAT(book.Reserve("alice", "alice", "d", 11).status(),
                FailsWith(reason::kQuotaExceeded));
    EXPECT_OK(book.Reserve("alice", "alice", "d", 10).status());
    EXPECT_OK(book.Reserve("bob", "bob", "d", 100).status());
  }
  EXPECT_OK(book.Reserve("alice", "alice", "d", 60).status());
  EXPECT_THAT(book.Reserve("alice", "alice", "d", INT64_MAX).status(),
              FailsWith(reason::kQuotaExceeded));
  EXPECT_THAT(book.Reserve("alice", "alice", "d", -1).status(),
              FailsWith(reason::kArgumentInvalid));
}

TEST_F(UploadBookTest, ResultsCountToo) {
  UploadBook book(*index_, blobs_, 100);
  EXPECT_OK(book.CheckRoom("alice", "alice"));
  profile::v1::ProfileInfo info;
  info.set_path("runs/profile/infer/profile.json");
  info.set_size_bytes(100);
  ASSERT_OK(index_->SetProfiles({"alice", "runs/profile"}, {info}));
  EXPECT_THAT(book.CheckRoom("alice", "alice"), FailsWith(reason::kQuotaExceeded));
  EXPECT_OK(book.CheckRoom("bob", "bob"));
}

}  // namespace
}  // namespace libreyolo::daemon
