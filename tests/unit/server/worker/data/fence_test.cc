// Datasets that name what is not theirs, by every form that a dataset file knows.
#include "server/worker/data/fence.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/worker/data/dataset.h"
#include "server/worker/data/dataset_images.h"
#include "server/worker/data/image_source.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;

class FenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"own/images/1.png", "others/images/1.png", "shared/images/1.png"}) {
      ASSERT_OK(MakeDirectories(std::filesystem::path(dir_ / name).parent_path().string()));
      std::filesystem::copy_file(TestImagePath("rgb.png"), dir_ / name);
    }
    dir_.Write("others/images/1.txt", "0 0.5 0.5 0.1 0.1\n");
    dir_.Write("others/list.txt", "images/1.png\n");
    dir_.Write("others/boxes.json", "{}");
    fence_ = Fence({dir_ / "own", dir_ / "shared"});
  }
  absl::Status Load(const std::string& yaml, const Fence& fence) {
    dir_.Write("own/data.yaml", yaml);
    LY_ASSIGN_OR_RETURN(const DatasetConfig config,
                        ReadDatasetYaml(dir_ / "own/data.yaml", dir_ / "shared", fence));
    return LoadTrainSplit(config, {}).status();
  }
  absl::Status Load(const std::string& yaml) { return Load(yaml, fence_); }
  void Link(const std::string& target, const std::string& name) {
    ASSERT_EQ(symlink((dir_ / target).c_str(), (dir_ / name).c_str()), 0);
  }

  libreyolo::testing::TempDir dir_;
  Fence fence_;
};

TEST_F(FenceTest, WhatIsInsideIsRead) {
  EXPECT_OK(Load("train: images\nnc: 1\n"));
  EXPECT_OK(Load("train: ./images/../images\nnc: 1\n"));
  EXPECT_OK(Load(absl::StrCat("path: ", dir_ / "own", "\ntrain: images\nnc: 1\n")));
  EXPECT_OK(Load(absl::StrCat("path: ", dir_ / "shared", "\ntrain: images\nnc: 1\n")));
  dir_.Write("own/list.txt", "images/1.png\n./images/1.png\n");
  EXPECT_OK(Load("train: list.txt\nnc: 1\n"));
  // A link inside that stays inside.
  Link("own/images", "own/again");
  EXPECT_OK(Load("train: again\nnc: 1\n"));
}

TEST_F(FenceTest, NoFormLeadsOut) {
  const std::string others = dir_ / "others";
  for (const char* yaml :
       {"train: ../others/images\n", "path: ../others\ntrain: images\n",
        "train: images/../../others/images\n", "train: [images, ../others/images/1.png]\n",
        "train: ../others/list.txt\n", "path: ../others/./../others\ntrain: images\n"}) {
    EXPECT_THAT(Load(absl::StrCat(yaml, "nc: 1\n")), FailsWith(reason::kPathRefused)) << yaml;
  }
  for (const std::string& path : {others, std::string("/etc"), std::string("/")}) {
    EXPECT_THAT(Load(absl::StrCat("path: ", path, "\ntrain: images\nnc: 1\n")),
                FailsWith(reason::kPathRefused));
    EXPECT_THAT(Load(absl::StrCat("train: ", path, "\nnc: 1\n")), FailsWith(reason::kPathRefused));
  }
  // A folder whose name only begins like the own one.
  std::filesystem::copy(others, dir_ / "own2", std::filesystem::copy_options::recursive);
  EXPECT_THAT(Load("train: ../own2/images\nnc: 1\n"), FailsWith(reason::kPathRefused));
}

TEST_F(FenceTest, ListsAndAnnotationsLeadNowhereElse) {
  for (const std::string& line :
       {dir_ / "others/images/1.png", std::string("../others/images/1.png"),
        std::string("/etc/passwd.png")}) {
    dir_.Write("own/list.txt", absl::StrCat("images/1.png\n", line, "\n"));
    EXPECT_THAT(Load("train: list.txt\nnc: 1\n"), FailsWith(reason::kPathRefused)) << line;
  }
  EXPECT_THAT(Load("train: images\nnames: [a]\nannotations: {train: ../others/boxes.json}\n"),
              FailsWith(reason::kPathRefused));
  dir_.Write("own/boxes.json",
             R"({"images": [{"id": 1, "file_name": "../../others/images/1.png", "width": 4,)"
             R"( "height": 4}], "annotations": [], "categories": [{"id": 0, "name": "a"}]})");
  EXPECT_THAT(Load("train: images\nnames: [a]\nannotations: {train: boxes.json}\n"),
              FailsWith(reason::kPathRefused));
}

TEST_F(FenceTest, LinksLeadNowhereElse) {
  Link("others/images", "own/linked");
  EXPECT_THAT(Load("train: linked\nnc: 1\n"), FailsWith(reason::kPathRefused));
  EXPECT_THAT(Load("train: linked/1.png\nnc: 1\n"), FailsWith(reason::kPathRefused));
  Link("others/images/1.png", "own/images/2.png");
  EXPECT_THAT(Load("train: images\nnc: 1\n"), FailsWith(reason::kPathRefused));
  EXPECT_THAT(ListImages(dir_ / "own/images", fence_).status(), FailsWith(reason::kPathRefused));
  ASSERT_EQ(unlink((dir_ / "own/images/2.png").c_str()), 0);
  ASSERT_OK(MakeDirectories(dir_ / "own/labels"));
  Link("others/images/1.txt", "own/labels/1.txt");
  EXPECT_THAT(Load("train: images\nnc: 1\n"), FailsWith(reason::kPathRefused));
  ASSERT_EQ(unlink((dir_ / "own/labels/1.txt").c_str()), 0);
  ASSERT_OK(Load("train: images\nnc: 1\n"));
  // The dataset file itself.
  dir_.Write("others/data.yaml", "train: images\nnc: 1\n");
  Link("others/data.yaml", "own/other.yaml");
  EXPECT_THAT(ReadDatasetYaml(dir_ / "own/other.yaml", "", fence_).status(),
              FailsWith(reason::kPathRefused));
}

TEST_F(FenceTest, WordsThatOnlyLookLikePathsNameNothing) {
  // A full-width dot, a two-dot leader, a division slash: names of files that are not there.
  for (const char* word : {"\uff0e\uff0e/others/images", "\u2025/others/images",
                           "..\u2215others\u2215images", "%2e%2e/others/images"}) {
    EXPECT_THAT(Load(absl::StrCat("train: \"", word, "\"\nnc: 1\n")),
                FailsWith(reason::kDatasetInvalid))
        << word;
  }
  const std::string nul("images\0/../../others", 20);
  EXPECT_THAT(fence_.Check(dir_ / nul), FailsWith(reason::kPathRefused));
  EXPECT_THAT(Load("train: \"images\\0/../../others/images\"\nnc: 1\n"),
              FailsWith(reason::kPathRefused));
}

TEST_F(FenceTest, SaysTheSameOfWhatExistsAndWhatDoesNot) {
  const absl::Status there = fence_.Check(dir_ / "others/images", "x");
  EXPECT_THAT(there, FailsWith(reason::kPathRefused));
  EXPECT_EQ(fence_.Check(dir_ / "others/absent", "x"), there);
  EXPECT_OK(fence_.Check(dir_ / "own/absent"));
}

TEST_F(FenceTest, WithoutRootsEverythingIsAllowed) {
  EXPECT_OK(Load("train: ../others/images\nnc: 1\n", Fence()));
  EXPECT_OK(Load("train: ../others/images\nnc: 1\n", Fence(std::vector<std::string>{})));
}

}  // namespace
}  // namespace libreyolo::data
