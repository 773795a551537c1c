#include "server/daemon/store/profile_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/store/result_tree.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using ::libreyolo::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DescribeTrialsTest : public ::testing::Test {
 protected:
  void Repeat(const std::string& name, const std::string& job, int count) {
    dir_.Write(name, absl::StrCat("{\"job\": \"", job, "\", \"img_per_s_n\": ", count, "}"));
  }
  v1::ProfileInfo Describe(const std::string& name) {
    v1::ProfileInfo info;
    info.set_path("runs/" + name);
    DescribeTrials(dir_ / name, info);
    return info;
  }
  TempDir dir_;
};

TEST_F(DescribeTrialsTest, NamesTheTrialsBesideARepeat) {
  WriteResult(dir_.path(), "j1", {"infer", 2});
  Repeat("infer_repeat.json", "j1", 2);
  const v1::ProfileInfo info = Describe("infer_repeat.json");
  EXPECT_THAT(info.trials(), ElementsAre("runs/infer_0/profile.json", "runs/infer_1/profile.json"));
  EXPECT_EQ(info.trial_count(), 2);
}

TEST_F(DescribeTrialsTest, ATrainingsAreCalledProf) {
  WriteResult(dir_.path(), "j1", {"prof", 2});
  Repeat("profile_repeat.json", "j1", 2);
  EXPECT_THAT(Describe("profile_repeat.json").trials(),
              ElementsAre("runs/prof_0/profile.json", "runs/prof_1/profile.json"));
}

TEST_F(DescribeTrialsTest, LeavesOutWhatIsGoneOrAnothersAndSaysHowManyThereWere) {
  WriteResult(dir_.path(), "j1", {"infer", 3});
  std::filesystem::remove_all(dir_ / "infer_0");
  dir_.Write("infer_1/profile.json", "{\"job\": \"j2\"}");
  Repeat("infer_repeat.json", "j1", 3);
  const v1::ProfileInfo info = Describe("infer_repeat.json");
  EXPECT_THAT(info.trials(), ElementsAre("runs/infer_2/profile.json"));
  EXPECT_EQ(info.trial_count(), 3);
}

TEST_F(DescribeTrialsTest, AForeignRepeatHasItsForeignTrials) {
  WriteResult(dir_.path(), "", {"infer", 2});
  dir_.Write("infer_repeat.json", "{\"img_per_s_n\": 2}");
  EXPECT_EQ(Describe("infer_repeat.json").trials_size(), 2);
}

TEST_F(DescribeTrialsTest, OtherProfilesHaveNone) {
  WriteResult(dir_.path(), "j1", {"infer", 1});
  EXPECT_THAT(Describe("infer/profile.json").trials(), IsEmpty());
  for (const char* text : {"", "[]", "{\"img_per_s_n\": \"2\"}", "{\"img_per_s_n\": -3}"}) {
    dir_.Write("infer_repeat.json", text);
    EXPECT_EQ(Describe("infer_repeat.json").trial_count(), 0) << text;
  }
  // Looks at no more than a message may name.
  dir_.Write("infer_repeat.json", "{\"img_per_s_n\": 9000000000}");
  EXPECT_EQ(Describe("infer_repeat.json").trial_count(), 1000);
}

}  // namespace
}  // namespace libreyolo::daemon
