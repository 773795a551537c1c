#include "server/daemon/access/user_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class UserFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode = 0600) {
    ASSERT_OK(WriteFileAtomically(path_, text));
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  absl::Status OpenStatus() { return UserFile::Open(path_).status(); }
  static std::string Line(const std::string& who, const std::string& token) {
    return absl::StrCat(who, " ", Sha256Hex(token), "\n");
  }

  libreyolo::testing::TempDir dir_;
  const std::string path_ = dir_.path() + "/tokens";
};

TEST_F(UserFileTest, KnowsTokensByTheirDigest) {
  Write(absl::StrCat("# people\n\n", Line("alice submitter", "a"), "\tops\tadmin\t", Sha256Hex("o"),
                     "\r\n"));
  ASSERT_OK_AND_ASSIGN(const auto users, UserFile::Open(path_));
  ASSERT_TRUE(users->FindToken("a").has_value());
  EXPECT_EQ(users->FindToken("a")->principal, "alice");
  EXPECT_EQ(users->FindToken("a")->role, Role::kSubmitter);
  EXPECT_EQ(users->FindToken("o")->role, Role::kAdmin);
  EXPECT_FALSE(users->FindToken("").has_value());
  EXPECT_FALSE(users->FindToken(Sha256Hex("a")).has_value());
}

TEST_F(UserFileTest, OnePrincipalMayHaveSeveralRoles) {
  Write(Line("alice submitter", "write") + Line("alice viewer", "read"));
  ASSERT_OK_AND_ASSIGN(const auto users, UserFile::Open(path_));
  EXPECT_EQ(users->FindToken("write")->role, Role::kSubmitter);
  EXPECT_EQ(users->FindToken("read")->role, Role::kViewer);
}

TEST_F(UserFileTest, CertificatesStandApartFromTokens) {
  Write("carol viewer cert\n" + Line("alice submitter", "a"));
  ASSERT_OK_AND_ASSIGN(const auto users, UserFile::Open(path_));
  ASSERT_TRUE(users->FindCertificate("carol").has_value());
  EXPECT_FALSE(users->FindCertificate("alice").has_value());
  EXPECT_FALSE(users->FindToken("cert").has_value());
}

TEST_F(UserFileTest, AccountsAreFoundByNumberThenByName) {
  Write("carol submitter account\nops admin uid:1004\ndave viewer account\n" +
        Line("erin viewer", "e"));
  ASSERT_OK_AND_ASSIGN(const auto users, UserFile::Open(path_));
  EXPECT_EQ(users->FindAccount(1000, "carol")->role, Role::kSubmitter);
  EXPECT_EQ(users->FindAccount(1004, "dave")->principal, "ops");
  EXPECT_FALSE(users->FindAccount(1000, "erin").has_value());
  EXPECT_FALSE(users->FindAccount(1000, "").has_value());
  EXPECT_FALSE(users->FindCertificate("carol").has_value());
  EXPECT_FALSE(users->FindToken("account").has_value());
  EXPECT_TRUE(users->Names("erin"));
  EXPECT_FALSE(users->Names("frank"));
}

TEST_F(UserFileTest, WrongLinesAreNamedButNotQuoted) {
  for (const std::string& line :
       {std::string("alice submitter secret"), std::string("alice boss ") + Sha256Hex("a"),
        std::string("../x viewer ") + Sha256Hex("a"), std::string("alice viewer"),
        std::string("Alice viewer ") + Sha256Hex("a"), std::string("a viewer cert secret"),
        std::string("a viewer uid:secret"), std::string("a viewer uid:-1")}) {
    Write("# first\n" + line + "\n");
    const absl::Status status = OpenStatus();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 2"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
  Write("# nobody\n");
  EXPECT_TRUE(absl::IsInvalidArgument(OpenStatus()));
}

TEST_F(UserFileTest, MustBePrivate) {
  for (const mode_t mode : {0644, 0604, 0660, 0602}) {
    Write(Line("alice viewer", "a"), mode);
    EXPECT_TRUE(absl::IsInvalidArgument(OpenStatus())) << mode;
  }
  Write(Line("alice viewer", "a"), 0640);
  EXPECT_OK(OpenStatus());
}

TEST_F(UserFileTest, IsReadAgainAndLetsNobodyInWhenItIsWrong) {
  Write(Line("alice viewer", "a"));
  ASSERT_OK_AND_ASSIGN(const auto users, UserFile::Open(path_));
  Write(Line("bob viewer", "b"));
  EXPECT_FALSE(users->FindToken("a").has_value());
  EXPECT_TRUE(users->FindToken("b").has_value());
  Write("nonsense\n");
  EXPECT_FALSE(users->FindToken("b").has_value());
  Write(Line("bob viewer", "b"), 0644);
  EXPECT_FALSE(users->FindToken("b").has_value());
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_TRUE(users->FindToken("b").has_value());
  ASSERT_EQ(unlink(path_.c_str()), 0);
  EXPECT_FALSE(users->FindToken("b").has_value());
}

}  // namespace
}  // namespace libreyolo::daemon
