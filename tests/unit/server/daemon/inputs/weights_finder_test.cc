#include "server/daemon/inputs/weights_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class WeightsFinderTest : public ::testing::Test {
 protected:
  WeightsFinderTest() {
    std::filesystem::create_directories(dir_ / "ws");
    places_.workspace_root = dir_ / "ws";
    places_.server_folders = {dir_ / "server1", dir_ / "server2"};
    places_.cache_dir = dir_ / "cache";
    places_.hub_base_url = "https://hub/LibreYOLO";
  }
  // Where it is found below the test's folder; "hub" when it must be downloaded, "" when nowhere.
  std::string Find(const std::string& name) {
    const auto found = FindWeights(name, places_);
    if (!found.ok()) {
      EXPECT_THAT(found, FailsWith(reason::kWeightsNotFound));
      return "";
    }
    return found->path.empty() ? "hub" : found->path.substr(dir_.path().size() + 1);
  }
  TempDir dir_;
  WeightsPlaces places_;
};

TEST_F(WeightsFinderTest, EachPlaceComesBeforeTheNext) {
  const std::string name = "LibreYOLO9t.pt";
  EXPECT_EQ(Find(name), "hub");
  for (const char* place : {"cache/weights/", "server2/", "server1/", "ws/", "ws/weights/"}) {
    dir_.Write(place + name, "w");
    EXPECT_EQ(Find(name), place + name);
  }
}

TEST_F(WeightsFinderTest, TheHubHasItsOwnNamesOnly) {
  ASSERT_OK_AND_ASSIGN(const FoundWeights found, FindWeights("libreyolo9C.pt", places_));
  EXPECT_EQ(found.url, "https://hub/LibreYOLO/LibreYOLO9c/resolve/main/LibreYOLO9c.pt");
  EXPECT_EQ(found.target, dir_ / "cache/weights/LibreYOLO9c.pt") << "one copy for all spellings";
  dir_.Write("cache/weights/LibreYOLO9c.pt", "w");
  EXPECT_EQ(Find("LIBREYOLO9C.PT"), "cache/weights/LibreYOLO9c.pt");
  EXPECT_EQ(Find("LibreYOLO9x.pt"), "");
  EXPECT_EQ(Find("yolo.pt"), "");
}

TEST_F(WeightsFinderTest, APathIsLookedForInTheWorkspaceAlone) {
  dir_.Write("server1/a/w.pt", "w");
  EXPECT_EQ(Find("a/w.pt"), "");
  dir_.Write("ws/a/w.pt", "w");
  EXPECT_EQ(Find("a/w.pt"), "ws/a/w.pt");
  EXPECT_EQ(Find("./a//w.pt"), "ws/a/w.pt");
  EXPECT_EQ(Find("a/LibreYOLO9t.pt"), "") << "nor downloaded";
}

TEST_F(WeightsFinderTest, AFolderIsNoWeights) {
  std::filesystem::create_directories(dir_ / "ws/w.pt");
  EXPECT_EQ(Find("w.pt"), "");
}

TEST_F(WeightsFinderTest, NothingOutsideTheWorkspaceIsNamed) {
  dir_.Write("outside.pt", "w");
  for (const char* name : {"../outside.pt", "/etc/passwd", "a/../../outside.pt"}) {
    EXPECT_THAT(FindWeights(name, places_), FailsWith(reason::kPathRefused)) << name;
  }
  std::filesystem::create_symlink(dir_ / "outside.pt", dir_ / "ws/link.pt");
  EXPECT_THAT(FindWeights("link.pt", places_), FailsWith(reason::kPathRefused));
  places_.link_rule = LinkRule::kOwnersMayLeave;
  EXPECT_EQ(Find("link.pt"), "ws/link.pt") << "a local daemon's user may";
}

TEST_F(WeightsFinderTest, TheErrorNamesTheWaysOut) {
  const auto found = FindWeights("mine.pt", places_);
  const ErrorDetail detail = GetErrorDetail(found.status());
  EXPECT_THAT(detail.message, HasSubstr("mine.pt"));
  ASSERT_THAT(detail.hints, SizeIs(3));
  EXPECT_THAT(detail.hints[0], HasSubstr("weights/"));
  EXPECT_THAT(detail.hints[1], HasSubstr("--weights ./path"));
  EXPECT_THAT(detail.hints[2], HasSubstr("--weights random"));
}

}  // namespace
}  // namespace libreyolo::daemon
