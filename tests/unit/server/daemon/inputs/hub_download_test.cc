// Downloads from a server of the test's own on the loopback.
#include "server/daemon/inputs/hub_download.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "common/base/sha256.h"
#include "common/base/unique_fd.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/inputs/http_server.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::HttpRequest;
using ::libreyolo::testing::HttpServer;
using ::libreyolo::testing::StatusIs;
using ::libreyolo::testing::TempDir;
using ::testing::HasSubstr;

const std::string kFile = std::string(3000, 'a') + std::string(2000, 'b');
constexpr char kTag[] = "\"v1\"";

std::string Linked(const std::string& digest) {
  return absl::StrCat("ETag: ", kTag, "\r\nX-Linked-ETag: \"", digest, "\"\r\n");
}

// A hub that knows ranges, and the tag that they hold for.
std::string Hub(const HttpRequest& request) {
  const std::string headers = Linked(Sha256Hex(kFile));
  const std::string range = request.Header("range");
  size_t start = 0;
  if (range.empty() || request.Header("if-range") != kTag ||
      !absl::SimpleAtoi(range.substr(6, range.size() - 7), &start)) {
    return HttpServer::Answer(200, kFile, headers);
  }
  if (start >= kFile.size()) return HttpServer::Answer(416, "");
  return HttpServer::Answer(206, kFile.substr(start), headers);
}

class HubDownloadTest : public ::testing::Test {
 protected:
  HubDownloadTest() {
    // A machine's own settings must not send the loopback through a proxy.
    setenv("no_proxy", "*", 1);
    request_.target = dir_ / "cache/LibreYOLO9t.pt";
    request_.pauses = {absl::ZeroDuration(), absl::ZeroDuration()};
  }
  absl::StatusOr<DownloadResult> Download(const std::string& url) {
    request_.url = url;
    return DownloadFile(request_, cancelled_, [this](int64_t done, int64_t total) {
      progress_.emplace_back(done, total);
    });
  }
  std::string Cached(const std::string& suffix = "") const {
    return ReadFile(request_.target + suffix).value_or("(none)");
  }
  // What a broken connection left.
  void LeavePart(const std::string& bytes, const std::string& tag) {
    dir_.Write("cache/LibreYOLO9t.pt.part", bytes);
    dir_.Write("cache/LibreYOLO9t.pt.part.etag", tag);
  }

  TempDir dir_;
  DownloadRequest request_;
  std::atomic<bool> cancelled_{false};
  std::vector<std::pair<int64_t, int64_t>> progress_;
};

TEST_F(HubDownloadTest, AFileArrivesWholeAndChecked) {
  HttpServer hub(&Hub);
  ASSERT_OK_AND_ASSIGN(const DownloadResult result, Download(hub.Url("/t.pt")));
  EXPECT_EQ(result.digest, Sha256Hex(kFile));
  EXPECT_TRUE(result.verified);
  EXPECT_EQ(Cached(), kFile);
  EXPECT_EQ(Cached(".sha256"), Sha256Hex(kFile));
  EXPECT_EQ(Cached(".part"), "(none)");
  EXPECT_EQ(Cached(".part.etag"), "(none)");
  ASSERT_FALSE(progress_.empty());
  EXPECT_EQ(progress_.back().second, 5000);
}

TEST_F(HubDownloadTest, ADiskWithoutRoomIsFoundBeforeTheFirstByte) {
  HttpServer hub(&Hub);
  request_.min_free_bytes = int64_t{1} << 60;
  const auto result = Download(hub.Url("/t.pt"));
  EXPECT_THAT(result.status(), FailsWith(reason::kDiskFull));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("of 5000 bytes"));
  EXPECT_EQ(Cached(".part"), "");
  EXPECT_EQ(hub.requests().size(), 1u);  // another try would find no more room
}

TEST_F(HubDownloadTest, WithoutADigestItSaysSo) {
  HttpServer hub([](const HttpRequest&) { return HttpServer::Answer(200, kFile); });
  ASSERT_OK_AND_ASSIGN(const DownloadResult result, Download(hub.Url("/t.pt")));
  EXPECT_FALSE(result.verified);
  EXPECT_EQ(Cached(), kFile);
  EXPECT_EQ(Cached(".sha256"), "not verified");
}

TEST_F(HubDownloadTest, ABrokenConnectionGoesOnWhereItWas) {
  std::atomic<int> count{0};
  HttpServer hub([&](const HttpRequest& request) {
    if (count++ > 0) return Hub(request);
    return HttpServer::Answer(200, kFile.substr(0, 1234), Linked(Sha256Hex(kFile)), 5000);
  });
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(Cached(), kFile);
  const auto requests = hub.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].Header("range"), "");
  EXPECT_EQ(requests[1].Header("range"), "bytes=1234-");
  EXPECT_EQ(requests[1].Header("if-range"), kTag);
}

TEST_F(HubDownloadTest, APartOfAnEarlierProcessIsGoneOnWith) {
  LeavePart(kFile.substr(0, 4000), kTag);
  HttpServer hub(&Hub);
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(Cached(), kFile);
  ASSERT_EQ(hub.requests().size(), 1u);
  EXPECT_EQ(hub.requests()[0].Header("range"), "bytes=4000-");
}

TEST_F(HubDownloadTest, APartOfAnotherVersionIsReplaced) {
  LeavePart(std::string(4000, 'z'), "\"v0\"");
  HttpServer hub(&Hub);
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(Cached(), kFile);
}

TEST_F(HubDownloadTest, APartWithoutATagIsFetchedAnew) {
  LeavePart(kFile.substr(0, 4000), "");
  HttpServer hub(&Hub);
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(Cached(), kFile);
  EXPECT_EQ(hub.requests()[0].Header("range"), "");
}

TEST_F(HubDownloadTest, APartThatIsTooLongIsFetchedAnew) {
  LeavePart(kFile + "more", kTag);
  HttpServer hub(&Hub);
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(Cached(), kFile);
}

TEST_F(HubDownloadTest, AWrongDigestIsRemoved) {
  HttpServer hub([](const HttpRequest&) {
    return HttpServer::Answer(200, kFile, Linked(Sha256Hex("another file")));
  });
  const auto result = Download(hub.Url("/t.pt"));
  EXPECT_THAT(result, FailsWith(reason::kDigestMismatch));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(Sha256Hex("another file")));
  EXPECT_EQ(Cached(), "(none)");
  EXPECT_EQ(Cached(".part"), "(none)");
}

TEST_F(HubDownloadTest, ABodyThatAlwaysEndsEarlyIsNoFile) {
  HttpServer hub([](const HttpRequest&) { return HttpServer::Answer(200, "short", "", 5000); });
  const auto result = Download(hub.Url("/t.pt"));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("broke off"));
  EXPECT_EQ(hub.requests().size(), 3u) << "the first attempt and one after each pause";
  EXPECT_EQ(Cached(), "(none)");
}

TEST_F(HubDownloadTest, ARedirectToAnotherHostDropsTheToken) {
  HttpServer storage(&Hub);
  HttpServer hub([&](const HttpRequest&) {
    return HttpServer::Answer(302, "",
                              absl::StrCat(Linked(Sha256Hex(kFile)), "Location: ",
                                           storage.Url("/blob", "localhost"), "\r\n"));
  });
  request_.bearer_token = "secret";
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(Cached(), kFile);
  ASSERT_EQ(hub.requests().size(), 1u);
  EXPECT_EQ(hub.requests()[0].Header("authorization"), "Bearer secret");
  const auto followed = storage.requests();
  ASSERT_EQ(followed.size(), 1u);
  EXPECT_EQ(followed[0].path, "/blob");
  for (const auto& [name, value] : followed[0].headers) {
    EXPECT_THAT(value, ::testing::Not(HasSubstr("secret"))) << name;
  }
}

TEST_F(HubDownloadTest, ARedirectWithinTheHostKeepsTheToken) {
  HttpServer hub([](const HttpRequest& request) {
    return request.path == "/new" ? Hub(request)
                                  : HttpServer::Answer(307, "", "Location: /new\r\n");
  });
  request_.bearer_token = "secret";
  ASSERT_OK(Download(hub.Url("/t.pt")));
  ASSERT_EQ(hub.requests().size(), 2u);
  EXPECT_EQ(hub.requests()[1].Header("authorization"), "Bearer secret");
}

TEST_F(HubDownloadTest, EndlessRedirectsEnd) {
  HttpServer hub([](const HttpRequest&) { return HttpServer::Answer(302, "", "Location: /\r\n"); });
  EXPECT_FALSE(Download(hub.Url("/")).ok());
  EXPECT_EQ(Cached(), "(none)");
}

class RefusedTest : public HubDownloadTest, public ::testing::WithParamInterface<int> {};

TEST_P(RefusedTest, IsKnownAtOnceAndSaysTheCode) {
  HttpServer hub([](const HttpRequest&) { return HttpServer::Answer(GetParam(), "no"); });
  const auto result = Download(hub.Url("/t.pt"));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(absl::StrCat(GetParam())));
  EXPECT_EQ(hub.requests().size(), 1u);
  EXPECT_EQ(Cached(), "(none)");
}
INSTANTIATE_TEST_SUITE_P(Codes, RefusedTest, ::testing::Values(401, 403, 404, 410),
                         [](const auto& info) { return absl::StrCat("Code", info.param); });

class PassingTest : public HubDownloadTest, public ::testing::WithParamInterface<int> {};

TEST_P(PassingTest, IsTriedAgain) {
  std::atomic<int> count{0};
  HttpServer hub([&](const HttpRequest& request) {
    return count++ < 2 ? HttpServer::Answer(GetParam(), "later") : Hub(request);
  });
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(Cached(), kFile);
}
INSTANTIATE_TEST_SUITE_P(Codes, PassingTest, ::testing::Values(429, 500, 503),
                         [](const auto& info) { return absl::StrCat("Code", info.param); });

TEST_F(HubDownloadTest, AnErrorOnTheWayDoesNotSpoilThePart) {
  LeavePart(kFile.substr(0, 4000), kTag);
  std::atomic<int> count{0};
  HttpServer hub([&](const HttpRequest& request) {
    return count++ == 0 ? HttpServer::Answer(503, "later", "ETag: \"error page\"\r\n")
                        : Hub(request);
  });
  ASSERT_OK(Download(hub.Url("/t.pt")));
  EXPECT_EQ(hub.requests()[1].Header("range"), "bytes=4000-");
  EXPECT_EQ(Cached(), kFile);
}

TEST_F(HubDownloadTest, NobodyThereIsKnownAtOnce) {
  std::string url;
  {
    HttpServer gone(&Hub);
    url = gone.Url("/t.pt");
  }
  request_.pauses = {absl::Hours(1)};  // were it tried again, the test would not end
  const auto result = Download(url);
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("cannot be reached"));
}

TEST_F(HubDownloadTest, ANameThatDoesNotResolveIsNoNetwork) {
  request_.pauses = {absl::Hours(1)};
  const auto result = Download("http://hub.invalid/t.pt");
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("cannot be reached"));
}

TEST_F(HubDownloadTest, APageInsteadOfTheFileIsRefused) {
  HttpServer portal([](const HttpRequest&) {
    return HttpServer::Answer(200, "<html>log in</html>", "Content-Type: text/html\r\n");
  });
  const auto result = Download(portal.Url("/t.pt"));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("web page"));
  EXPECT_EQ(Cached(), "(none)");
  EXPECT_EQ(Cached(".part"), "(none)");
}

TEST_F(HubDownloadTest, OtherSchemesAreNotFollowed) {
  dir_.Write("secret", "s");
  EXPECT_FALSE(Download("file://" + dir_ / "secret").ok());
  HttpServer hub([&](const HttpRequest&) {
    return HttpServer::Answer(302, "", absl::StrCat("Location: file://", dir_ / "secret", "\r\n"));
  });
  EXPECT_FALSE(Download(hub.Url("/t.pt")).ok());
  EXPECT_EQ(Cached(), "(none)");
}

TEST_F(HubDownloadTest, MoreThanTheLimitIsRefused) {
  request_.max_bytes = 4999;
  HttpServer hub(&Hub);
  EXPECT_THAT(Download(hub.Url("/t.pt")), FailsWith(reason::kLimitExceeded));
  EXPECT_EQ(Cached(), "(none)");
}

TEST_F(HubDownloadTest, AFileThatIsThereIsNotFetched) {
  dir_.Write("cache/LibreYOLO9t.pt", "from before");
  HttpServer hub(&Hub);
  ASSERT_OK_AND_ASSIGN(const DownloadResult result, Download(hub.Url("/t.pt")));
  EXPECT_EQ(result.digest, Sha256Hex("from before"));
  EXPECT_FALSE(result.verified);
  EXPECT_TRUE(hub.requests().empty());
}

TEST_F(HubDownloadTest, TheSecondDownloaderGetsTheFirstOnesFile) {
  dir_.Write("cache/LibreYOLO9t.pt.lock", "");
  UniqueFd first(open((request_.target + ".lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(first.get(), LOCK_EX), 0);
  HttpServer hub(&Hub);
  absl::StatusOr<DownloadResult> result;
  std::thread second([&] { result = Download(hub.Url("/t.pt")); });
  dir_.Write("cache/LibreYOLO9t.pt", kFile);
  dir_.Write("cache/LibreYOLO9t.pt.sha256", Sha256Hex(kFile));
  first.Reset();
  second.join();
  ASSERT_OK(result);
  EXPECT_TRUE(result->verified);
  EXPECT_TRUE(hub.requests().empty());
}

TEST_F(HubDownloadTest, ACancelEndsItAndKeepsThePart) {
  HttpServer hub([&](const HttpRequest& request) {
    cancelled_ = true;
    return Hub(request);
  });
  EXPECT_THAT(Download(hub.Url("/t.pt")), FailsWith(reason::kCancelled));
  EXPECT_EQ(Cached(), "(none)");
  EXPECT_NE(Cached(".part"), "(none)");
}

TEST_F(HubDownloadTest, ACacheThatCannotBeWrittenIsNamed) {
  dir_.Write("cache", "a file where the folder should be");
  HttpServer hub(&Hub);
  const auto result = Download(hub.Url("/t.pt"));
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("cache"));
}

}  // namespace
}  // namespace libreyolo::daemon
