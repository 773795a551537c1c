#include "client/rpc/download.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>

#include "common/base/unique_fd.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/rpc/client_place.h"
#include "tests/unit/client/rpc/fake_server.h"

namespace libreyolo::client {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTrace[] = "0123456789abcdefghijklmnopqrstuvwxyz";  // four chunks of the server

class DownloadTest : public ::testing::Test {
 protected:
  DownloadTest() : fake_(client_.Path("run/server.sock")), server_(fake_.AsRemote()) {
    profile_.set_path("runs/profile/infer/profile.json");
    options_.progress = [this](const std::string&, int64_t done, int64_t) {
      progress_.push_back(done);
    };
    Offer("profile_trace.json", kTrace);
  }
  // The server has the file, and has announced it.
  void Offer(const std::string& name, const std::string& content) {
    fake_.profiles.files[name] = content;
    v1::ProfileFile& file = *profile_.add_files();
    file.set_name(name);
    file.set_size_bytes(static_cast<int64_t>(content.size()));
    file.set_digest(Sha256Hex(content));
  }
  absl::StatusOr<std::vector<std::string>> Download() {
    return DownloadProfile(server_, profile_, options_);
  }
  std::string Here(const std::string& name) const {
    return ReadFile("runs/profile/infer/" + name).value_or("(none)");
  }
  void Put(const std::string& name, const std::string& content) {
    client_.AddFile("work/runs/profile/infer/" + name, content);
  }
  // Neither the file nor a part of it is there.
  void ExpectNothingHere() const {
    EXPECT_EQ(Here("profile_trace.json"), "(none)");
    EXPECT_EQ(Here("profile_trace.json.part"), "(none)");
  }

  ClientPlace client_;
  FakeServer fake_;
  Server server_;
  v1::ProfileInfo profile_;
  DownloadOptions options_;
  std::vector<int64_t> progress_;
};

TEST_F(DownloadTest, EachFileGoesToTheSamePathHere) {
  Offer("empty.json", "");
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> written, Download());
  EXPECT_THAT(written, ElementsAre("runs/profile/infer/profile_trace.json",
                                   "runs/profile/infer/empty.json"));
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
  EXPECT_EQ(Here("profile_trace.json.part"), "(none)");
  EXPECT_EQ(Here("empty.json"), "");
  EXPECT_THAT(progress_, ElementsAre(10, 20, 30, 36, 0));
}

TEST_F(DownloadTest, ABrokenStreamGoesOnWhereItWas) {
  fake_.profiles.failing_downloads = 1;
  ASSERT_OK(Download());
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
  EXPECT_THAT(fake_.profiles.offsets, ElementsAre(0, 20));
}

TEST_F(DownloadTest, APartOfAnEarlierFetchIsGoneOnWith) {
  Put("profile_trace.json.part", std::string(kTrace).substr(0, 15));
  ASSERT_OK(Download());
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
  EXPECT_THAT(fake_.profiles.offsets, ElementsAre(15));
}

TEST_F(DownloadTest, APartThatIsAllThereOnlyNeedsItsName) {
  Put("profile_trace.json.part", kTrace);
  ASSERT_OK(Download());
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
  EXPECT_THAT(fake_.profiles.offsets, ElementsAre(36));
}

TEST_F(DownloadTest, APartOfAnotherFileIsReplaced) {
  Put("profile_trace.json.part", "of an earlier trace");
  ASSERT_OK(Download());
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
  EXPECT_THAT(fake_.profiles.offsets, ElementsAre(19, 0));
}

TEST_F(DownloadTest, APartLongerThanTheFileIsReplaced) {
  Put("profile_trace.json.part", std::string(100, 'x'));
  ASSERT_OK(Download());
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
  EXPECT_THAT(fake_.profiles.offsets, ElementsAre(0));
}

TEST_F(DownloadTest, AServerThatGoesAwayForGoodLeavesThePartForTheNextTime) {
  fake_.profiles.failing_downloads = 4;
  fake_.profiles.chunk_bytes = 2;
  EXPECT_THAT(Download(), FailsWith(reason::kServerUnreachable));
  EXPECT_EQ(Here("profile_trace.json"), "(none)");
  EXPECT_EQ(Here("profile_trace.json.part"), std::string(kTrace).substr(0, 16));
  ASSERT_OK(Download());
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
}

TEST_F(DownloadTest, AnotherContentThanAnnouncedIsNotKept) {
  fake_.profiles.files["profile_trace.json"] = std::string(36, '?');
  EXPECT_THAT(Download(), FailsWith(reason::kDigestMismatch));
  ExpectNothingHere();
  EXPECT_THAT(fake_.profiles.offsets, ElementsAre(0)) << "a whole download is not repeated";
}

TEST_F(DownloadTest, AnotherLengthThanAnnouncedIsSeenAtTheFirstChunk) {
  fake_.profiles.files["profile_trace.json"] = std::string(1000, '?');
  const auto result = Download();
  EXPECT_THAT(result, FailsWith(reason::kDigestMismatch));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("replaced on the server"));
  ExpectNothingHere();
}

TEST_F(DownloadTest, AFileThatBecameShorterThanThePartIsNotKept) {
  Put("profile_trace.json.part", std::string(kTrace).substr(0, 15));
  fake_.profiles.files["profile_trace.json"] = "short";
  EXPECT_THAT(Download(), FailsWith(reason::kDigestMismatch));
  ExpectNothingHere();
}

TEST_F(DownloadTest, ChunksOutOfOrderAreRefused) {
  fake_.profiles.offset_error = 1;
  const auto result = Download();
  EXPECT_THAT(result, FailsWith(reason::kDigestMismatch));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("at byte 1 instead of 0"));
  ExpectNothingHere();
}

TEST_F(DownloadTest, AStreamThatEndsEarlyIsNoFile) {
  fake_.profiles.ends_early = true;
  const auto result = Download();
  EXPECT_THAT(result, FailsWith(reason::kDigestMismatch));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("ended early"));
  ExpectNothingHere();
}

TEST_F(DownloadTest, TheSameFileIsNotFetchedAgain) {
  Put("profile_trace.json", kTrace);
  ASSERT_OK(Download());
  EXPECT_TRUE(fake_.profiles.offsets.empty());
}

TEST_F(DownloadTest, ADifferentFileStaysUnlessForced) {
  Put("profile_trace.json", "mine");
  EXPECT_THAT(Download(), FailsWith(reason::kArgumentConflict));
  EXPECT_EQ(Here("profile_trace.json"), "mine");
  options_.force = true;
  ASSERT_OK(Download());
  EXPECT_EQ(Here("profile_trace.json"), kTrace);
}

TEST_F(DownloadTest, APartThatIsALinkIsNotWrittenThrough) {
  client_.AddFile("work/elsewhere", "precious");
  std::filesystem::create_directories("runs/profile/infer");
  std::filesystem::create_symlink(client_.Path("work/elsewhere"),
                                  "runs/profile/infer/profile_trace.json.part");
  EXPECT_FALSE(Download().ok());
  EXPECT_EQ(ReadFile("elsewhere").value_or(""), "precious");
}

TEST_F(DownloadTest, TwoFetchesOfOneFileDoNotMix) {
  Put("profile_trace.json.part", "");
  const UniqueFd other(open("runs/profile/infer/profile_trace.json.part", O_RDWR));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  EXPECT_THAT(Download(), FailsWith(reason::kBusy));
  EXPECT_EQ(Here("profile_trace.json"), "(none)");
}

TEST_F(DownloadTest, AServersWordForAPlaceIsChecked) {
  profile_.set_path("../outside/profile.json");
  EXPECT_THAT(Download(), FailsWith(reason::kPathRefused));
  profile_.set_path("runs/profile/infer/profile.json");
  for (const char* name : {"..", "", "a/b", "../../escape", ".bash_aliases", ".profile.json",
                           "authorized_keys", "x\x1b[2J.json", "a\n.json"}) {
    profile_.mutable_files(0)->set_name(name);
    EXPECT_THAT(Download(), FailsWith(reason::kPathRefused)) << name;
  }
  profile_.mutable_files(0)->set_name("profile.json");
  profile_.set_path(".ssh/profile.json");
  EXPECT_THAT(Download(), FailsWith(reason::kPathRefused));
}

}  // namespace
}  // namespace libreyolo::client
