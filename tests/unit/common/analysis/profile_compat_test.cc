// Profiles that released versions wrote are read, with their figures; a later schema is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/analysis/profile_json.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using libreyolo::testing::FailsWith;
using ::testing::HasSubstr;

struct CompatCase {
  const char* name;
  const char* file;
  double img_per_s;
};

class ProfileCompatTest : public ::testing::TestWithParam<CompatCase> {
 protected:
  absl::StatusOr<std::string> Text() {
    return ReadFile(absl::StrCat(LIBREYOLO_SOURCE_DIR, "/tests/data/compat/", GetParam().file));
  }
};

TEST_P(ProfileCompatTest, IsReadAndKeepsEveryMember) {
  ASSERT_OK_AND_ASSIGN(const std::string text, Text());
  ASSERT_OK_AND_ASSIGN(const JsonValue before, ParseJson(text));
  ASSERT_OK_AND_ASSIGN(const Profile profile, ProfileFromJson(before));
  EXPECT_EQ(profile.schema, kProfileSchema);
  EXPECT_EQ(profile.img_per_s, GetParam().img_per_s);
  // Written again it has every member that it had.
  ASSERT_OK_AND_ASSIGN(const JsonValue after, ParseJson(WriteProfileJson(profile)));
  for (const auto& [key, value] : before.object()) {
    const JsonValue* kept = after.Find(key);
    ASSERT_NE(kept, nullptr) << key;
    EXPECT_EQ(kept->ToCompact(), value.ToCompact()) << key;
  }
}

TEST_P(ProfileCompatTest, OfALaterSchemaIsRefusedWithBothNames) {
  ASSERT_OK_AND_ASSIGN(const std::string text, Text());
  ASSERT_OK_AND_ASSIGN(const JsonValue later,
                       ParseJson(absl::StrReplaceAll(text, {{"analysis/v1", "analysis/v2"}})));
  const auto profile = ProfileFromJson(later);
  EXPECT_THAT(profile, FailsWith(reason::kTraceSchemaUnsupported));
  EXPECT_THAT(std::string(profile.status().message()), HasSubstr("analysis/v2"));
  EXPECT_THAT(std::string(profile.status().message()), HasSubstr("analysis/v1"));
}

INSTANTIATE_TEST_SUITE_P(Released, ProfileCompatTest,
                         ::testing::ValuesIn(std::vector<CompatCase>{
                             {"Infer", "profile_v1_infer.json", 48.08},
                             {"Repeat", "profile_v1_repeat.json", 48.08},
                             {"Train", "profile_v1_train.json", 7.33},
                         }),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace libreyolo::analysis
