#include "server/daemon/inputs/dataset_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/error.h"
#include "server/daemon/inputs/dataset_fetcher.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/daemon/inputs/http_server.h"
#include "tests/unit/server/daemon/inputs/zip_writer.h"

namespace libreyolo::daemon {
namespace {

using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::HttpRequest;
using ::libreyolo::testing::HttpServer;
using ::libreyolo::testing::TempDir;
using ::libreyolo::testing::WriteZip;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kYaml[] = "train: images\nnc: 3\n";

class DatasetFinderTest : public ::testing::Test {
 protected:
  DatasetFinderTest() {
    setenv("no_proxy", "*", 1);
    std::filesystem::create_directories(dir_ / "ws");
    places_.workspace_root = dir_ / "ws";
    places_.server_folders = {dir_ / "datasets"};
    places_.cache_dir = dir_ / "cache";
    places_.hub_base_url = "https://hub.invalid/LibreYOLO";
  }
  std::string Found(const std::string& name) {
    const auto found = FindDataset(name, places_);
    return found.ok() ? found->yaml_path : found.status().ToString();
  }

  TempDir dir_;
  DatasetPlaces places_;
};

TEST_F(DatasetFinderTest, TheWorkspaceComesFirst) {
  dir_.Write("ws/a.yaml", kYaml);
  dir_.Write("datasets/a.yaml", kYaml);
  dir_.Write("datasets/b/data.yaml", kYaml);
  dir_.Write("datasets/c.yml", kYaml);
  EXPECT_EQ(Found("a.yaml"), dir_ / "ws/a.yaml");
  EXPECT_EQ(Found("a"), dir_ / "ws/a.yaml");
  EXPECT_EQ(Found("./a"), dir_ / "ws/a.yaml");
  EXPECT_EQ(Found("b"), dir_ / "datasets/b/data.yaml");
  EXPECT_EQ(Found("c"), dir_ / "datasets/c.yml");
}

TEST_F(DatasetFinderTest, AFolderStandsForItsOneFile) {
  dir_.Write("ws/one/coco.yaml", kYaml);
  dir_.Write("ws/two/a.yaml", kYaml);
  dir_.Write("ws/two/b.yaml", kYaml);
  dir_.Write("ws/named/a.yaml", kYaml);
  dir_.Write("ws/named/data.yaml", kYaml);
  dir_.Write("ws/none/readme.txt", "");
  EXPECT_EQ(Found("one"), dir_ / "ws/one/coco.yaml");
  EXPECT_EQ(Found("named"), dir_ / "ws/named/data.yaml");
  EXPECT_THAT(FindDataset("two", places_).status(), FailsWith(reason::kDatasetInvalid));
  EXPECT_THAT(Found("two"), AllOf(HasSubstr("a.yaml, b.yaml")));
  EXPECT_THAT(FindDataset("none", places_).status(), FailsWith(reason::kDatasetInvalid));
}

TEST_F(DatasetFinderTest, NoWordLeavesTheWorkspace) {
  dir_.Write("secret.yaml", kYaml);
  std::filesystem::create_symlink(dir_ / "secret.yaml", dir_ / "ws/link.yaml");
  EXPECT_THAT(FindDataset("../secret.yaml", places_).status(), FailsWith(reason::kPathRefused));
  EXPECT_THAT(FindDataset("/etc/passwd", places_).status(), FailsWith(reason::kPathRefused));
  EXPECT_THAT(FindDataset("link.yaml", places_).status(), FailsWith(reason::kPathRefused));
}

TEST_F(DatasetFinderTest, UnknownNamesGetTheWaysOut) {
  const absl::Status status = FindDataset("nothing", places_).status();
  EXPECT_THAT(status, FailsWith(reason::kDatasetNotFound));
  EXPECT_EQ(GetErrorDetail(status).hints.size(), 2u);
}

TEST_F(DatasetFinderTest, BuiltInNames) {
  ASSERT_OK_AND_ASSIGN(const FoundDataset sample, FindDataset("sample", places_));
  EXPECT_TRUE(sample.is_sample);
  ASSERT_OK_AND_ASSIGN(const FoundDataset coco, FindDataset("coco128", places_));
  EXPECT_EQ(coco.url, "https://hub.invalid/datasets/LibreYOLO/coco128/resolve/main/coco128.zip");
  // A folder of pictures that bears the name hides nothing.
  dir_.Write("ws/sample/1.jpg", "");
  ASSERT_OK_AND_ASSIGN(const FoundDataset again, FindDataset("sample", places_));
  EXPECT_TRUE(again.is_sample);
  dir_.Write("ws/sample/data.yaml", kYaml);
  EXPECT_EQ(Found("sample"), dir_ / "ws/sample/data.yaml");
}

class DatasetFetcherTest : public DatasetFinderTest {
 protected:
  // A hub that publishes this archive under the name.
  absl::StatusOr<std::string> Fetch(const std::string& archive) {
    const HttpServer server([&](const HttpRequest& request) {
      path_ = request.path;
      return archive.empty() ? HttpServer::Answer(404, "") : HttpServer::Answer(200, archive);
    });
    places_.hub_base_url = server.Url("/LibreYOLO");
    auto found = FindDataset("coco128", places_);
    if (!found.ok()) return found.status();
    if (!found->yaml_path.empty()) return found->yaml_path;
    return FetchDataset(*found, "", 0, cancelled_, [](int64_t, int64_t) {});
  }
  std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& files) {
    WriteZip(dir_ / "hub.zip", files);
    return *ReadFile(dir_ / "hub.zip", 1 << 20);
  }

  std::string path_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(DatasetFetcherTest, FetchesUnpacksAndRemembers) {
  const std::string zip = ZipOf({{"coco128/images/train2017/1.jpg", "picture"},
                                 {"coco128/labels/train2017/1.txt", "0 0.5 0.5 0.1 0.1\n"}});
  ASSERT_OK_AND_ASSIGN(const std::string yaml, Fetch(zip));
  EXPECT_EQ(path_, "/datasets/LibreYOLO/coco128/resolve/main/coco128.zip");
  EXPECT_EQ(yaml, dir_ / "cache/datasets/coco128/data.yaml");
  EXPECT_TRUE(std::filesystem::exists(dir_ / "cache/datasets/coco128/images/train2017/1.jpg"));
  path_.clear();
  ASSERT_OK_AND_ASSIGN(const std::string again, Fetch(zip));
  EXPECT_EQ(again, yaml);
  EXPECT_EQ(path_, "");  // nobody asked the hub
}

TEST_F(DatasetFetcherTest, AnArchiveWithoutAFolderOfItsOwnWorksToo) {
  ASSERT_OK(Fetch(ZipOf({{"images/1.jpg", "picture"}})).status());
}

TEST_F(DatasetFetcherTest, WhatCannotBeHadIsSaidAndNothingIsLeft) {
  EXPECT_THAT(Fetch("").status(), FailsWith(reason::kDatasetNotFound));
  EXPECT_THAT(Fetch("no archive").status(), FailsWith(reason::kDatasetInvalid));
  EXPECT_THAT(Fetch(ZipOf({{"readme.txt", ""}})).status(), FailsWith(reason::kDatasetInvalid));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache/datasets/coco128"));
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "cache/datasets")) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

}  // namespace
}  // namespace libreyolo::daemon
