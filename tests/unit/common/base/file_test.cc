#include "common/base/file.h"

#include <gtest/gtest.h>

#include "common/base/sha256.h"
#include "tests/support/status_matchers.h"

namespace libreyolo {
namespace {

using ::libreyolo::testing::StatusIs;

TEST(FileTest, AtomicWriteReplacesTheWholeFile) {
  const std::string path = ::testing::TempDir() + "/atomic.txt";
  ASSERT_OK(WriteFileAtomically(path, "a long first text"));
  ASSERT_OK(WriteFileAtomically(path, "second"));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(path));
  EXPECT_EQ(text, "second");
  EXPECT_EQ(TailOfFile(path, 3), "ond");
}

TEST(FileTest, ReadSaysWhatIsWrong) {
  EXPECT_THAT(ReadFile("/nonexistent/file"), StatusIs(absl::StatusCode::kNotFound));
  const std::string path = ::testing::TempDir() + "/limit.txt";
  ASSERT_OK(WriteFile(path, "12345"));
  EXPECT_THAT(ReadFile(path, 4), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_FALSE(ReadFile(::testing::TempDir()).ok());
}

TEST(Sha256Test, KnownDigest) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(IsSha256Hex(Sha256Hex("")));
  EXPECT_FALSE(IsSha256Hex("ABC"));
}

}  // namespace
}  // namespace libreyolo
