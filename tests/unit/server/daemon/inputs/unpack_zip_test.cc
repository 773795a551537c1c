#include "server/daemon/inputs/unpack_zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/error.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/inputs/zip_writer.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::StatusIs;
using ::libreyolo::testing::TempDir;
using ::libreyolo::testing::WriteZip;
using ::testing::HasSubstr;

constexpr int64_t kAnySize = int64_t{1} << 20;

class UnpackZipTest : public ::testing::Test {
 protected:
  absl::Status Unpack(const UnpackLimits& limits = {}) {
    return UnpackZip(dir_ / "a.zip", dir_ / "out", limits, cancelled_, nullptr);
  }
  absl::Status UnpackFiles(const std::vector<std::pair<std::string, std::string>>& files,
                           const UnpackLimits& limits = {}) {
    WriteZip(dir_ / "a.zip", files);
    return Unpack(limits);
  }
  std::string Read(const std::string& name) {
    const auto text = ReadFile(dir_ / ("out/" + name), kAnySize);
    return text.ok() ? *text : std::string(text.status().message());
  }

  TempDir dir_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(UnpackZipTest, FilesAndFoldersAppear) {
  ASSERT_OK(UnpackFiles({{"d/", ""}, {"d/images/1.jpg", "one"}, {"empty.txt", ""}}));
  EXPECT_EQ(Read("d/images/1.jpg"), "one");
  EXPECT_EQ(Read("empty.txt"), "");
}

TEST_F(UnpackZipTest, NoNameLeavesTheFolder) {
  for (const char* name : {"../evil", "a/../../evil", "/evil", "a/./../b/../../evil"}) {
    EXPECT_THAT(UnpackFiles({{name, "x"}}), StatusIs(absl::StatusCode::kInvalidArgument)) << name;
    EXPECT_FALSE(std::filesystem::exists(dir_ / "evil")) << name;
    EXPECT_FALSE(std::filesystem::exists("/evil"));
  }
}

TEST_F(UnpackZipTest, LimitsHold) {
  EXPECT_THAT(UnpackFiles({{"a", "1"}, {"b", "2"}, {"c", "3"}}, {.max_files = 2}),
              FailsWith(reason::kLimitExceeded));
  EXPECT_THAT(UnpackFiles({{"d", std::string(600, 'x')}, {"e", std::string(600, 'y')}},
                          {.max_bytes = 1000}),
              FailsWith(reason::kLimitExceeded));
}

TEST_F(UnpackZipTest, ABombIsRefusedBeforeItIsUnpacked) {
  EXPECT_THAT(UnpackFiles({{"bomb", std::string(8 << 20, '\0')}}),
              FailsWith(reason::kLimitExceeded));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/bomb"));
}

TEST_F(UnpackZipTest, DamagedArchivesAreSaidToBeSo) {
  dir_.Write("a.zip", "this is no archive");
  EXPECT_THAT(Unpack(), StatusIs(absl::StatusCode::kInvalidArgument));
  dir_.Write("a.zip", "");
  EXPECT_THAT(Unpack(), StatusIs(absl::StatusCode::kInvalidArgument));
  WriteZip(dir_ / "a.zip", {{"f", std::string(5000, 'x') + "end"}});
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(dir_ / "a.zip", kAnySize));
  for (size_t size = 0; size < whole.size(); size += 7) {
    dir_.Write("a.zip", whole.substr(0, size));
    EXPECT_FALSE(Unpack().ok()) << size;
    std::filesystem::remove_all(dir_ / "out");
  }
  // A byte of the packed data is wrong: the checksum tells.
  std::string broken = whole;
  broken[40] = static_cast<char>(broken[40] ^ 0x55);
  dir_.Write("a.zip", broken);
  EXPECT_FALSE(Unpack().ok());
}

TEST_F(UnpackZipTest, ADiskWithoutRoomIsFoundBeforeTheFirstFile) {
  EXPECT_THAT(UnpackFiles({{"a", "1"}}, {.min_free_bytes = int64_t{1} << 60}),
              FailsWith(reason::kDiskFull));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
}

TEST_F(UnpackZipTest, CancelEndsIt) {
  cancelled_ = true;
  EXPECT_THAT(UnpackFiles({{"a", "1"}}), FailsWith(reason::kCancelled));
}

}  // namespace
}  // namespace libreyolo::daemon
