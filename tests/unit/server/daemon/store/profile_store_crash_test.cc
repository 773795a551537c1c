// Every step of a commit that reaches the disk is made the last one, by ending the process there
// and by making it fail; afterwards either the whole old or the whole new result must stand, and
// nothing may be lost.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/base/check.h"
#include "server/daemon/store/profile_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/store/result_tree.h"

namespace libreyolo::daemon {
namespace {

using libreyolo::testing::FailsWith;
using libreyolo::testing::TempDir;

constexpr int kCrashed = 42;

// A file system that knows no flags, as some network ones.
int PlainRename(const char* from, const char* to, unsigned flags) {
  if (flags != 0) return EINVAL;
  return rename(from, to) == 0 ? 0 : errno;
}

struct Scenario {
  const char* name;
  int old_trials;  // 0: nothing stands there
  std::string old_job;
  int new_trials;
  bool plain_rename;
};

class CrashTest : public ::testing::TestWithParam<Scenario> {
 protected:
  // A fresh project with the old result in place and the new one staged.
  void Reset() {
    std::filesystem::remove_all(project_);
    if (GetParam().old_trials > 0) WriteResult(project_, GetParam().old_job, old_names_);
    Stage(project_, "new", new_names_);
  }

  ProfileStore Store(std::function<absl::Status(const std::string&)> at) {
    StoreHooks hooks;
    // Whether there are flags is a question and no step; the scenarios answer it.
    hooks.at = [at = std::move(at)](const std::string& point) {
      return at && point != "rename flags" ? at(point) : absl::OkStatus();
    };
    if (GetParam().plain_rename) hooks.rename = &PlainRename;
    return ProfileStore(dir_ / "locks", std::move(hooks));
  }

  // Runs `body` in a child that ends at the `last`th point. False when that was not reached.
  bool CrashAt(int last, const std::function<void(ProfileStore&)>& body) {
    const pid_t child = fork();
    if (child == 0) {
      int count = 0;
      ProfileStore store = Store([&](const std::string&) {
        if (count++ == last) _exit(kCrashed);
        return absl::OkStatus();
      });
      body(store);
      _exit(0);
    }
    int status = 0;
    LY_CHECK(waitpid(child, &status, 0) == child);
    LY_CHECK(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    return WEXITSTATUS(status) == kCrashed;
  }

  // The old result in its history: under its job, or under some time when it names none.
  Tree OldInHistory(const Tree& found) {
    if (GetParam().old_trials == 0) return {};
    std::string folder = GetParam().old_job;
    for (const auto& [place, job] : found) {
      if (folder.empty() && place.rfind("history/2", 0) == 0)
        folder = place.substr(8, place.find('/', 8) - 8);
    }
    return Entries("history/" + folder, GetParam().old_job, old_names_);
  }

  // Empty history folders may be left by an attempt that was not decided.
  static Tree WithoutEmptyFolders(Tree tree) {
    for (auto it = tree.begin(); it != tree.end();)
      it = it->second == "empty" ? tree.erase(it) : std::next(it);
    return tree;
  }

  // Whole old or whole new, nothing else; true when it is the new one.
  bool ExpectWhole(const std::string& after) {
    const Tree found = WithoutEmptyFolders(ReadTree(project_));
    const Tree old_whole =
        GetParam().old_trials == 0 ? Tree{} : Entries("", GetParam().old_job, old_names_);
    const Tree new_whole = Both(Entries("", "new", new_names_), OldInHistory(found));
    EXPECT_TRUE(found == old_whole || found == new_whole)
        << "after " << after << ": " << ::testing::PrintToString(found);
    return found == new_whole;
  }

  TempDir dir_;
  const std::string project_ = dir_ / "project";
  const ResultNames old_names_{"infer", std::max(1, GetParam().old_trials)};
  const ResultNames new_names_{"infer", GetParam().new_trials};
};

TEST_P(CrashTest, EndOfTheProcessAtAnyPointLeavesOneWholeResult) {
  const auto commit = [&](ProfileStore& store) { (void)store.Commit(project_, "new", new_names_); };
  const auto recover = [&](ProfileStore& store) { (void)store.Recover(project_); };
  int kept_old = 0;
  int rolled_forward = 0;
  for (int at = 0;; ++at) {
    Reset();
    if (!CrashAt(at, commit)) break;
    ProfileStore store = Store(nullptr);
    ASSERT_OK_AND_ASSIGN(const auto recovered, store.Recover(project_));
    const bool is_new = ExpectWhole("point " + std::to_string(at));
    EXPECT_EQ(ProfileStore::IsCommitted(project_, "new", new_names_), is_new);
    EXPECT_EQ(recovered.size(), is_new ? 1U : 0U);
    ++(is_new ? rolled_forward : kept_old);
    // A second crash, in the recovery itself.
    for (int again = 0;; ++again) {
      Reset();
      ASSERT_TRUE(CrashAt(at, commit));
      if (!CrashAt(again, recover)) break;
      ASSERT_OK(store.Recover(project_));
      EXPECT_EQ(ExpectWhole("points " + std::to_string(at) + " and " + std::to_string(again)),
                is_new);
    }
  }
  EXPECT_GT(kept_old, 3);
  EXPECT_GT(rolled_forward, 3);
}

TEST_P(CrashTest, ErrorAtAnyPointLosesNothingAndIsCompletedLater) {
  int unchanged = 0;
  int completed_later = 0;
  for (int at = 0;; ++at) {
    Reset();
    int count = 0;
    ProfileStore failing = Store([&](const std::string& point) -> absl::Status {
      if (count++ != at) return absl::OkStatus();
      return absl::ResourceExhaustedError("no space left at " + point);
    });
    const absl::Status status = failing.Commit(project_, "new", new_names_);
    if (count <= at) break;
    const std::string point = "point " + std::to_string(at);
    if (status.ok()) {  // the point came after its step
      EXPECT_TRUE(ExpectWhole(point));
      continue;
    }
    EXPECT_THAT(status, FailsWith(reason::kStoreFailed));
    // What the daemon does with a failed job. It must not take the old result with it.
    failing.Discard(project_, "new");
    if (!std::filesystem::exists(project_ + "/.staging")) {
      EXPECT_FALSE(ExpectWhole(point));
      ++unchanged;
      continue;
    }
    // Swapped in part: the next job in this project completes it first, then replaces it.
    ++completed_later;
    Stage(project_, "next", new_names_);
    ASSERT_OK(Store(nullptr).Commit(project_, "next", new_names_));
    const Tree found = WithoutEmptyFolders(ReadTree(project_));
    EXPECT_EQ(found,
              Both(Both(Entries("", "next", new_names_), Entries("history/new", "new", new_names_)),
                   OldInHistory(found)))
        << point;
  }
  EXPECT_GT(unchanged, 3);
  EXPECT_GT(completed_later, 0);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, CrashTest,
                         ::testing::Values(Scenario{"FirstResult", 0, "", 1, false},
                                           Scenario{"SingleOverSingle", 1, "old", 1, false},
                                           Scenario{"ShorterRepeat", 3, "old", 2, false},
                                           Scenario{"LongerRepeat", 2, "old", 3, false},
                                           Scenario{"RepeatOverForeign", 2, "", 2, false},
                                           Scenario{"SingleWithoutFlags", 1, "old", 1, true},
                                           Scenario{"RepeatWithoutFlags", 3, "old", 2, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace libreyolo::daemon
