// What a fence lets through, told by a shell behind it.
#include "server/daemon/launch/file_fence.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "server/daemon/launch/confine.h"
#include "server/daemon/launch/worker_files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class FileFenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!FileFence::IsSupported()) GTEST_SKIP() << "this kernel has no Landlock";
    for (const char* name : {"shown/a", "hidden/b", "hidden/granted/c", "work/d"}) {
      dir_.Write(name, "text");
    }
    grants_.read = {"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", dir_ / "worker"};
    grants_.devices = {"/dev/null"};
  }
  // "yes" or "no": whether the command works behind the fence.
  std::string Try(const std::string& command) {
    dir_.Write("worker",
               absl::StrCat("#!/bin/sh\nif ", command,
                            " 2>/dev/null >/dev/null; then echo yes; else echo no; fi\n"));
    EXPECT_EQ(chmod((dir_ / "worker").c_str(), 0700), 0);
    const auto fence = FileFence::Make(grants_, /*allow_network=*/false);
    EXPECT_OK(fence.status());
    const int out = open((dir_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ConfinedProcess process;
    process.program = dir_ / "worker";
    process.environment = {"PATH=/usr/bin:/bin"};
    process.descriptors = {{out, 1}};
    process.files = &*fence;
    process.calls.allow_processes = true;
    const absl::StatusOr<StartedProcess> started = StartConfined(process);
    close(out);
    EXPECT_OK(started.status());
    int status = -1;
    EXPECT_EQ(waitpid(started->pid, &status, 0), started->pid);
    std::string said = ReadFile(dir_ / "out").value_or("");
    if (!said.empty()) said.pop_back();
    return said;
  }
  std::string Read(const std::string& name) { return Try("cat " + dir_ / name); }

  libreyolo::testing::TempDir dir_;
  FileGrants grants_;
};

TEST_F(FileFenceTest, WhatIsNotGrantedIsDenied) {
  EXPECT_EQ(Read("shown/a"), "no");
  EXPECT_EQ(Try(absl::StrCat("echo x >>", dir_ / "work/d")), "no");
  EXPECT_EQ(Try(absl::StrCat("ls ", dir_ / "work")), "no");
}

TEST_F(FileFenceTest, GrantsAreForFilesAndForFoldersWhole) {
  grants_.read.push_back(dir_ / "hidden");
  grants_.read.push_back(dir_ / "shown/a");
  grants_.write.push_back(dir_ / "work");
  grants_.read.push_back(dir_ / "not there");
  EXPECT_EQ(Read("hidden/granted/c"), "yes");
  EXPECT_EQ(Read("shown/a"), "yes");
  EXPECT_EQ(Try(absl::StrCat("ls ", dir_ / "shown")), "no");
  EXPECT_EQ(Try(absl::StrCat("echo x >>", dir_ / "hidden/b")), "no");
  EXPECT_EQ(
      Try(absl::StrCat("mkdir ", dir_ / "work/new && mv ", dir_ / "work/d ", dir_ / "work/e")),
      "yes");
}

TEST_F(FileFenceTest, NoLinksAreMadeAndWhereFilesAreMadeNoFolders) {
  grants_.write = {dir_ / "work"};
  grants_.write_files = {dir_ / "shown"};
  EXPECT_EQ(Try(absl::StrCat("ln -s /etc/passwd ", dir_ / "work/link")), "no");
  EXPECT_EQ(Try(absl::StrCat("mkfifo ", dir_ / "work/pipe")), "no");
  EXPECT_EQ(Try(absl::StrCat("mkdir ", dir_ / "shown/new")), "no");
  EXPECT_EQ(Try(absl::StrCat("ln ", dir_ / "work/d ", dir_ / "shown/d")), "no");
  EXPECT_EQ(Try(absl::StrCat("echo x >", dir_ / "shown/n && mv ", dir_ / "shown/n ",
                             dir_ / "shown/m && rm ", dir_ / "shown/m")),
            "yes");
}

TEST_F(FileFenceTest, EverythingButWhatIsHidden) {
  grants_.read_around = {"/"};
  grants_.hidden = {dir_ / "hidden"};
  EXPECT_EQ(Read("shown/a"), "yes");
  EXPECT_EQ(Read("hidden/b"), "no");
  EXPECT_EQ(Read("hidden/granted/c"), "no");
  grants_.read.push_back(dir_ / "hidden/granted");
  EXPECT_EQ(Read("hidden/granted/c"), "yes");
  EXPECT_EQ(Read("hidden/b"), "no");
}

TEST_F(FileFenceTest, ALinkLeadsNowhereElse) {
  std::filesystem::create_symlink(dir_ / "hidden", dir_ / "shown/link");
  std::filesystem::create_symlink(dir_ / "hidden/b", dir_ / "shown/b");
  grants_.read_around = {"/"};
  grants_.hidden = {dir_ / "shown/link"};  // by another name
  EXPECT_EQ(Read("shown/b"), "no");
  EXPECT_EQ(Read("shown/link/b"), "no");
  EXPECT_EQ(Read("hidden/b"), "no");
  EXPECT_EQ(Read("shown/a"), "yes");
}

TEST_F(FileFenceTest, ItselfAloneCanBeWrittenToInProc) {
  grants_.read.emplace_back("/proc");
  EXPECT_EQ(Try("echo 5 >/proc/$$/clear_refs"), "yes");
  EXPECT_EQ(Try("echo 0 >/proc/$$/oom_score_adj"), "no");
  EXPECT_EQ(Try(absl::StrCat("echo 0 >/proc/", getpid(), "/oom_score_adj")), "no");
  EXPECT_EQ(Try(absl::StrCat("cat /proc/", getpid(), "/environ")), "no");
}

// ---- The policy

worker_link::WorkerPlan PlanOf(const std::vector<std::string>& sources,
                               const std::vector<std::string>& roots) {
  worker_link::WorkerPlan plan;
  plan.staging_dir = "/store/workspaces/alice/runs/.staging/j";
  plan.cache_dir = "/cache/workers/alice";
  plan.weights_path = "/store/blobs/w";
  plan.source_paths = sources;
  plan.data_roots = roots;
  return plan;
}
const WorkerFiles kFiles{false, {"/drivers"}, {"/store", "/secrets/tokens"}, {"/store/workspaces"}};

TEST(GrantsForTest, ConfinedDataGrantsItsRootsAlone) {
  const FileGrants grants =
      GrantsFor(PlanOf({"/store/inputs/j/0-a.png"}, {"/store/inputs/j"}), "/opt/ly/bin/w", kFiles);
  EXPECT_THAT(grants.read_around, Not(Contains("/")));
  for (const char* path : {"/store/inputs/j", "/store/blobs/w", "/opt/ly/bin/w", "/drivers"}) {
    EXPECT_THAT(grants.read, Contains(path));
  }
  for (const char* path : {"/store", "/", "/store/workspaces", "/etc", "/tmp", "/home"}) {
    EXPECT_THAT(grants.read, Not(Contains(path)));
  }
  EXPECT_THAT(grants.write, Contains("/cache/workers/alice"));
  EXPECT_THAT(grants.write_files,
              ::testing::ElementsAre("/store/workspaces/alice/runs/.staging/j"));
}

TEST(GrantsForTest, DataThatMayLieAnywhereGrantsAllButTheDaemonsOwn) {
  const FileGrants grants = GrantsFor(PlanOf({"/data/coco.yaml"}, {}), "/opt/ly/bin/w", kFiles);
  EXPECT_THAT(grants.read_around, Contains("/"));
  EXPECT_THAT(grants.hidden, Contains("/store"));
  EXPECT_THAT(grants.hidden, Contains("/secrets/tokens"));
  EXPECT_THAT(grants.read, Contains("/dev/shm"));
  EXPECT_THAT(grants.read, Contains("/store/workspaces"));
}

TEST(GrantsForTest, BuiltInDataGrantsNoMore) {
  const FileGrants grants = GrantsFor(PlanOf({}, {}), "/opt/ly/bin/w", kFiles);
  EXPECT_THAT(grants.read_around, Not(Contains("/")));
  EXPECT_THAT(grants.read, Not(Contains("/store/workspaces")));
}

}  // namespace
}  // namespace libreyolo::daemon
