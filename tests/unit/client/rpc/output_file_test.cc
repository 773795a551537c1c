#include "client/rpc/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::client {
namespace {

namespace fs = std::filesystem;

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  testing::TempDir folder_;
};

TEST_F(OutputFileTest, HasNoNameBeforeItIsWhole) {
  ASSERT_OK_AND_ASSIGN(OutputFile file, OutputFile::Make(Path("page.html"), false, "-o"));
  ASSERT_OK(file.Append("one "));
  EXPECT_FALSE(fs::exists(Path("page.html")));
  ASSERT_OK(file.Append("two"));
  ASSERT_OK(file.Commit());
  EXPECT_THAT(Names(), ElementsAre("page.html"));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(Path("page.html")));
  EXPECT_EQ(text, "one two");
  struct stat info;
  ASSERT_EQ(stat(Path("page.html").c_str(), &info), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST_F(OutputFileTest, LeavesNothingWhenItIsGivenUp) {
  {
    ASSERT_OK_AND_ASSIGN(OutputFile file, OutputFile::Make(Path("page.html"), false, "-o"));
    ASSERT_OK(file.Append("half"));
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(OutputFileTest, ReplacesOnlyWhenForced) {
  ASSERT_OK(WriteFile(Path("page.html"), "old"));
  EXPECT_THAT(OutputFile::Make(Path("page.html"), false, "-o"),
              FailsWith(reason::kArgumentConflict));
  ASSERT_OK_AND_ASSIGN(OutputFile file, OutputFile::Make(Path("page.html"), true, "-o"));
  ASSERT_OK(file.Append("new"));
  ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(Path("page.html")));
  EXPECT_EQ(text, "old");
  ASSERT_OK(file.Commit());
  ASSERT_OK_AND_ASSIGN(text, ReadFile(Path("page.html")));
  EXPECT_EQ(text, "new");
  EXPECT_THAT(Names(), ElementsAre("page.html"));
}

TEST_F(OutputFileTest, KeepsAFileThatCameMeanwhile) {
  ASSERT_OK_AND_ASSIGN(OutputFile file, OutputFile::Make(Path("page.html"), false, "-o"));
  ASSERT_OK(WriteFile(Path("page.html"), "theirs"));
  EXPECT_THAT(file.Commit(), FailsWith(reason::kArgumentConflict));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(Path("page.html")));
  EXPECT_EQ(text, "theirs");
  EXPECT_THAT(Names(), ElementsAre("page.html"));
}

TEST_F(OutputFileTest, RefusesWhatIsNoPlaceForAFile) {
  EXPECT_THAT(OutputFile::Make(folder_.path(), true, "-o"), FailsWith(reason::kArgumentInvalid));
  EXPECT_THAT(OutputFile::Make("/dev/null", true, "-o"), FailsWith(reason::kArgumentInvalid));
  EXPECT_THAT(OutputFile::Make(Path("absent/page.html"), false, "-o"),
              FailsWith(reason::kArgumentInvalid));
}

}  // namespace
}  // namespace libreyolo::client
