#include "server/daemon/store/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;
using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::StatusIs;
using ::libreyolo::testing::TempDir;
using ::testing::HasSubstr;

class LayoutTest : public ::testing::Test {
 protected:
  LayoutTest() {
    fs::create_directories(dir_ / "ws");
    fs::create_directories(dir_ / "served");
    fs::create_directories(dir_ / "outside");
    dir_.Write("outside/secret", "s");
  }
  TempDir dir_;
  const Layout local_{{dir_ / "state", dir_ / "ws", true}};
  const Layout served_{{dir_ / "state", dir_ / "served", false}};
};

TEST_F(LayoutTest, ALocalDaemonHasOneWorkspace) {
  EXPECT_EQ(local_.WorkspaceRoot("").value_or(""), dir_ / "ws");
  EXPECT_THAT(local_.WorkspaceRoot("team"), FailsWith(reason::kArgumentInvalid));
}

TEST_F(LayoutTest, AServedStoreHasNamedOnes) {
  EXPECT_EQ(served_.WorkspaceRoot("").value_or(""), dir_ / "served/default");
  EXPECT_EQ(served_.WorkspaceRoot("team-a.2").value_or(""), dir_ / "served/team-a.2");
  for (const char* name : {"..", ".hidden", "a/b", "UPPER", "sp ace", "a\n"}) {
    EXPECT_THAT(served_.WorkspaceRoot(name), FailsWith(reason::kArgumentInvalid)) << name;
  }
  EXPECT_THAT(served_.WorkspaceRoot(std::string(65, 'a')), FailsWith(reason::kArgumentInvalid));
}

TEST_F(LayoutTest, LookingMakesNoWorkspace) {
  EXPECT_OK(served_.WorkspaceRoot("team"));
  EXPECT_THAT(served_.ResolveExisting("team", "runs/profile/infer/profile.json"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(served_.ProjectDir("team", "runs/profile"));
  EXPECT_OK(served_.CheckProjectWritable("team", "runs/profile"));
  EXPECT_TRUE(fs::is_empty(dir_ / "served"));
}

TEST_F(LayoutTest, NoPathLeavesTheWorkspace) {
  for (const char* path : {"../outside/secret", "/etc/passwd", "a/../../outside", "a\nb"}) {
    EXPECT_THAT(local_.ResolveExisting("", path), FailsWith(reason::kPathRefused)) << path;
    EXPECT_THAT(local_.ProjectDir("", path), FailsWith(reason::kPathRefused)) << path;
    EXPECT_THAT(served_.ProjectDir("", path), FailsWith(reason::kPathRefused)) << path;
  }
}

TEST_F(LayoutTest, AProjectIsOnlySoDeepAndLong) {
  std::string deep = "z";
  for (int i = 0; i < 31; ++i) deep = "a/" + deep;
  EXPECT_OK(served_.ProjectDir("", deep));
  EXPECT_THAT(served_.ProjectDir("", "a/" + deep), FailsWith(reason::kPathRefused));
  const std::string part(200, 'x');
  const std::string long_path = part + "/" + part + "/" + part + "/" + part + "/" + part;
  EXPECT_OK(served_.ProjectDir("", long_path));
  EXPECT_THAT(served_.ProjectDir("", long_path + "/" + part), FailsWith(reason::kPathRefused));
}

TEST_F(LayoutTest, AServedStoreFollowsNoSymlinkOut) {
  fs::create_directories(dir_ / "served/default/runs");
  fs::create_symlink(dir_ / "outside", dir_ / "served/default/runs/out");
  fs::create_symlink("runs", dir_ / "served/default/in");
  EXPECT_THAT(served_.ResolveExisting("", "runs/out/secret"), FailsWith(reason::kPathRefused));
  EXPECT_THAT(served_.ProjectDir("", "runs/out/new/deep"), FailsWith(reason::kPathRefused));
  EXPECT_OK(served_.ProjectDir("", "in/new")) << "one that stays inside is followed";
}

TEST_F(LayoutTest, ALocalDaemonFollowsItsUsersSymlinks) {
  fs::create_symlink(dir_ / "outside", dir_ / "ws/out");
  EXPECT_EQ(local_.ResolveExisting("", "out/secret").value_or(""), dir_ / "ws/out/secret");
  EXPECT_EQ(local_.ProjectDir("", "out/new").value_or(""), dir_ / "ws/out/new");
  EXPECT_OK(local_.CheckProjectWritable("", "out/new"));
}

TEST_F(LayoutTest, AProjectBelowAFileIsRefused) {
  dir_.Write("ws/taken", "a file");
  const absl::Status status = local_.CheckProjectWritable("", "taken/p");
  EXPECT_THAT(status, FailsWith(reason::kProjectNotWritable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a folder"));
}

TEST_F(LayoutTest, AProjectBelowABrokenSymlinkIsRefused) {
  fs::create_symlink(dir_ / "unplugged", dir_ / "ws/disk");
  for (const char* project : {"disk", "disk/runs/profile"}) {
    const absl::Status status = local_.CheckProjectWritable("", project);
    EXPECT_THAT(status, FailsWith(reason::kProjectNotWritable)) << project;
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir_ / "ws/disk: is a broken symlink"));
  }
  fs::create_directory(dir_ / "unplugged");
  EXPECT_OK(local_.CheckProjectWritable("", "disk/runs/profile"));
}

TEST_F(LayoutTest, AFolderThatCannotBeWrittenIsRefusedAndNothingIsLeft) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  ASSERT_EQ(chmod((dir_ / "ws").c_str(), 0500), 0);
  EXPECT_THAT(local_.CheckProjectWritable("", "a/b"), FailsWith(reason::kProjectNotWritable));
  ASSERT_EQ(chmod((dir_ / "ws").c_str(), 0700), 0);
  EXPECT_TRUE(fs::is_empty(dir_ / "ws"));
}

}  // namespace
}  // namespace libreyolo::daemon
