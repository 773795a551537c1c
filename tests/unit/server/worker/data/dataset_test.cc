#include "server/worker/data/dataset.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/worker/data/coco_json.h"
#include "server/worker/data/dataset_images.h"
#include "tests/unit/server/worker/data/image_test_util.h"

namespace libreyolo::data {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder for one test, gone afterwards.
class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = (std::filesystem::path(::testing::TempDir()) / ("dataset_" + name)).string();
    std::filesystem::remove_all(folder_);
    ASSERT_OK(MakeDirectories(folder_ + "/images"));
    ASSERT_OK(MakeDirectories(folder_ + "/labels"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_OK(WriteFile(Path(name), text));
  }
  void AddImage(const std::string& name, const std::string& source = "rgb.png") {
    std::filesystem::copy_file(TestImagePath(source), Path(name));
  }
  absl::StatusOr<DatasetConfig> Parse(const std::string& text, const std::string& datasets = "") {
    return ParseDatasetYaml(text, Path("data.yaml"), datasets);
  }
  std::string ParseError(const std::string& text) {
    const absl::Status status = Parse(text).status();
    EXPECT_THAT(status, FailsWith(reason::kDatasetInvalid));
    return std::string(status.message());
  }

  std::string folder_;
};

TEST_F(DatasetTest, NamesAsAListOrAMapAndTheirCount) {
  ASSERT_OK_AND_ASSIGN(const DatasetConfig list, Parse("names: [cat, 7, true]"));
  EXPECT_THAT(list.class_names, ElementsAre("cat", "7", "true"));
  ASSERT_OK_AND_ASSIGN(const DatasetConfig gaps, Parse("names: {0: cat, 2: dog}"));
  EXPECT_THAT(gaps.class_names, ElementsAre("cat", "class_1"));
  ASSERT_OK_AND_ASSIGN(const DatasetConfig counted, Parse("nc: 4\nnames: {0: a, 2: b, 9: c}"));
  EXPECT_THAT(counted.class_names, ElementsAre("a", "class_1", "b", "class_3"));
  ASSERT_OK_AND_ASSIGN(const DatasetConfig neither, Parse("train: images"));
  EXPECT_FALSE(neither.class_count.has_value());
}

TEST_F(DatasetTest, RootFollowsTheReferencesOrder) {
  const std::string datasets = Path("datasets");
  ASSERT_OK(MakeDirectories(datasets + "/there"));
  ASSERT_OK(MakeDirectories(Path("there")));
  ASSERT_OK(MakeDirectories(Path("beside")));
  const auto root = [&](const std::string& path) {
    const absl::StatusOr<DatasetConfig> config = Parse("path: " + path, datasets);
    return config.ok() ? config->root : std::string(config.status().message());
  };
  EXPECT_EQ(root("/abs/olute"), "/abs/olute");
  EXPECT_EQ(root("there"), datasets + "/there");
  EXPECT_EQ(root("beside"), Path("beside"));
  EXPECT_EQ(root("nowhere"), datasets + "/nowhere");
  EXPECT_EQ(root(""), folder_);
}

TEST_F(DatasetTest, WrongKindsNameKeyAndLine) {
  EXPECT_THAT(ParseError("train: {a: b}"),
              HasSubstr("`train` is neither a text nor a list (line 1)"));
  EXPECT_THAT(ParseError("x: 1\ntrain: [[a]]"), HasSubstr("(line 2)"));
  EXPECT_THAT(ParseError("names: 3"), HasSubstr("`names`"));
  EXPECT_THAT(ParseError("names: {cat: 0}"), HasSubstr("class number"));
  EXPECT_THAT(ParseError("nc: many"), HasSubstr("`nc`"));
  EXPECT_THAT(ParseError("nc: 0"), HasSubstr("`nc`"));
  EXPECT_THAT(ParseError("nc: 20000"), HasSubstr("20000 classes"));
  EXPECT_THAT(ParseError("path: [a]"), HasSubstr("`path`"));
  EXPECT_THAT(ParseError("annotations: x"), HasSubstr("`annotations`"));
  EXPECT_THAT(ParseError("just text"), HasSubstr("not a map"));
  EXPECT_THAT(ParseError(""), HasSubstr("not a map"));
  EXPECT_THAT(ParseError("a: [1, 2"), HasSubstr("not readable as YAML"));
  EXPECT_THAT(ParseError("a: *unknown"), HasSubstr("not readable as YAML"));
}

TEST_F(DatasetTest, LimitsDepthAndEntries) {
  EXPECT_THAT(ParseError("a: " + std::string(1000, '[')), HasSubstr("nested too deep"));
  std::string many = "a: [";
  for (int i = 0; i < kMaxYamlNodes; ++i) many += "1,";
  EXPECT_THAT(ParseError(many + "1]"), HasSubstr("too many entries"));
  EXPECT_THAT(ParseError(std::string(kMaxDatasetYamlBytes + 1, 'a')), HasSubstr("larger than"));
}

// Aliases that multiply: each level holds ten of the one before. Nothing may unfold them.
TEST_F(DatasetTest, SurvivesABillionLaughs) {
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, "]\n");
  }
  EXPECT_OK(Parse(text));
  EXPECT_THAT(ParseError(text + "train: *a29"), HasSubstr("not a text"));
}

TEST_F(DatasetTest, MissingFile) {
  EXPECT_THAT(ReadDatasetYaml(Path("absent.yaml"), ""), FailsWith(reason::kDatasetNotFound));
}

TEST_F(DatasetTest, LabelPathReplacesWholeComponentsOnly) {
  EXPECT_EQ(LabelPathOf("/d/images/train/a.b.jpg"), "/d/labels/train/a.b.txt");
  EXPECT_EQ(LabelPathOf("/images/x/images/a.png"), "/labels/x/labels/a.txt");
  EXPECT_EQ(LabelPathOf("/d/my_images/a.jpg"), "/d/my_images/a.txt");
  EXPECT_EQ(LabelPathOf("/d/x/images.jpg"), "/d/x/images.txt");
}

TEST_F(DatasetTest, SuffixesInOneCaseOnly) {
  AddImage("images/a.png");
  AddImage("images/b.PNG");
  AddImage("images/c.Png");
  AddImage("images/d.gif");
  ASSERT_OK_AND_ASSIGN(const ImageFiles files, FindImages(folder_, {"images"}));
  EXPECT_THAT(files.paths, ElementsAre(Path("images/a.png"), Path("images/b.PNG")));
  EXPECT_EQ(files.unsupported_count, 1);
}

TEST_F(DatasetTest, AMissingEntryIsAnError) {
  EXPECT_THAT(FindImages(folder_, {"images", "absent"}), FailsWith(reason::kDatasetInvalid));
}

TEST_F(DatasetTest, LoadsOneImageAndCountsBadRows) {
  AddImage("images/a.png");
  Write("labels/a.txt", "0 0.5 0.5 1 1\n5 0.5 0.5 1 1\nx 0.5 0.5 1 1\n");
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config, Parse("train: images/a.png\nnames: [one]"));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadTrainSplit(config, {}));
  ASSERT_EQ(dataset.items.size(), 1U);
  EXPECT_EQ(dataset.items[0].boxes.size(), 1U);
  EXPECT_EQ(dataset.problems.skipped_label_count, 2);
  EXPECT_THAT(dataset.problems.examples,
              ElementsAre(Path("labels/a.txt") + ": line 2: class 5, the dataset has 1"));
}

TEST_F(DatasetTest, WithoutNamesTheModelsClassesCount) {
  AddImage("images/a.png");
  Write("labels/a.txt", "79 0.5 0.5 1 1\n80 0.5 0.5 1 1\n");
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config, Parse("train: images"));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadTrainSplit(config, {}));
  EXPECT_EQ(dataset.class_count, 80);
  EXPECT_EQ(dataset.items[0].boxes.size(), 1U);
}

TEST_F(DatasetTest, NoUsableImageSaysWhy) {
  Write("images/a.jpg", "not an image");
  Write("images/b.gif", "GIF89a");
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config, Parse("train: images"));
  const absl::Status status = LoadTrainSplit(config, {}).status();
  EXPECT_THAT(status, FailsWith(reason::kDatasetInvalid));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 cannot be read"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 in an unsupported format"));
  ASSERT_OK_AND_ASSIGN(const DatasetConfig no_train, Parse("val: images"));
  EXPECT_THAT(std::string(LoadTrainSplit(no_train, {}).status().message()),
              HasSubstr("has no `train`"));
}

TEST_F(DatasetTest, ResultDoesNotDependOnThreads) {
  for (int i = 0; i < 20; ++i) AddImage(absl::StrCat("images/", 100 + i, ".png"));
  for (int i = 0; i < 20; i += 3) {
    Write(absl::StrCat("labels/", 100 + i, ".txt"), "9 0.5 0.5 1 1\n0 0.5 0.5 1 1");
  }
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config, Parse("train: images\nnames: [one]"));
  DatasetOptions options;
  options.thread_count = 1;
  ASSERT_OK_AND_ASSIGN(const Dataset one, LoadTrainSplit(config, options));
  options.thread_count = 8;
  ASSERT_OK_AND_ASSIGN(const Dataset eight, LoadTrainSplit(config, options));
  ASSERT_EQ(one.items.size(), eight.items.size());
  for (size_t i = 0; i < one.items.size(); ++i) {
    EXPECT_EQ(one.items[i].image_path, eight.items[i].image_path);
    EXPECT_EQ(one.items[i].boxes, eight.items[i].boxes);
  }
  EXPECT_EQ(one.problems.examples, eight.problems.examples);
}

TEST_F(DatasetTest, CocoLayoutWithoutKeys) {
  ASSERT_OK(MakeDirectories(Path("annotations")));
  ASSERT_OK(MakeDirectories(Path("train2017")));
  AddImage("train2017/a.png");
  Write("annotations/instances_train2017.json",
        R"({"annotations": [{"image_id": 1, "category_id": 5, "bbox": [1, 2, 3, 4], "area": 12,
                             "segmentation": [[1, 2, 3]], "iscrowd": 0}],
            "images": [{"id": 1, "file_name": "a.png", "width": 13, "height": 9}],
            "categories": [{"id": 5, "name": "one", "supercategory": "x"}]})");
  ASSERT_OK_AND_ASSIGN(const DatasetConfig config, Parse("names: [one]"));
  DatasetOptions options;
  options.input_width = 13;
  options.input_height = 9;
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadTrainSplit(config, options));
  ASSERT_EQ(dataset.items.size(), 1U);
  EXPECT_EQ(dataset.items[0].image_path, Path("train2017/a.png"));
  EXPECT_THAT(dataset.items[0].boxes, ElementsAre(LabelBox{1, 2, 4, 6, 0}));
}

TEST_F(DatasetTest, CocoErrors) {
  const auto error = [this](const std::string& json) {
    Write("a.json", json);
    const absl::Status status = ReadCocoJson(Path("a.json"), {"one"}).status();
    EXPECT_THAT(status, FailsWith(reason::kDatasetInvalid));
    return std::string(status.message());
  };
  EXPECT_THAT(error(""), HasSubstr("not COCO JSON"));
  EXPECT_THAT(error("[1]"), HasSubstr("not COCO JSON"));
  EXPECT_THAT(error(R"({"images": [{"id": 1, )"), HasSubstr("not COCO JSON"));
  EXPECT_THAT(error(R"({"images": [{"id": "x"}]})"), HasSubstr("not COCO JSON"));
  EXPECT_THAT(error(R"({"images": [{"id": 1, "file_name": "a"}]})"), HasSubstr("width"));
  EXPECT_THAT(error(R"({"categories": [{"id": 1, "name": "two"}]})"), HasSubstr("\"two\""));
  EXPECT_THAT(error(R"({"annotations": [{"image_id": 3}]})"), HasSubstr("id 3"));
  EXPECT_THAT(error(R"({"annotations": [{"bbox": [1, 2, 3]}]})"), HasSubstr("not COCO JSON"));
  EXPECT_THAT(ReadCocoJson(Path("absent.json"), {}), FailsWith(reason::kDatasetNotFound));
}

TEST(LabelRowsTest, RowsByField) {
  struct Case {
    const char* text;
    size_t rows;
    int skipped;
  };
  for (const Case& row :
       std::vector<Case>{{"0 .5 5e-1 0.25 0.25", 1, 0},
                         {"\t 0\t.5 .5 .2 .2 \r\n", 1, 0},
                         {"", 0, 0},
                         {"0 1 2 3", 0, 0},                  // too few fields: no label
                         {"0 .1 .1 .2 .2 .3", 0, 1},         // five numbers
                         {"0 .1 .1 .2 .2 .3 .4", 1, 0},      // a triangle
                         {"0 .1 .1 .2 .2 .3 .4 .5", 0, 1},   // an odd one
                         {"0.0 .5 .5 .2 .2", 0, 1},          // the class is a number with a point
                         {"0 .5 .5 inf .2", 0, 1},           //
                         {"0 .5 .5 nan .2", 0, 1},           //
                         {"0 .5 .5 .2 .2x", 0, 1},           //
                         {"3 .5 .5 .2 .2", 0, 1},            //
                         {"-1 .5 .5 .2 .2", 0, 1},           //
                         {"99999999999 .5 .5 .2 .2", 0, 1},  // more than an int holds
                         {"0 .5 .5 .2 .2\n0 .5 .5 .2 .2", 2, 0}}) {
    const LabelRows rows = ParseLabelRows(row.text, 3);
    EXPECT_EQ(rows.rows.size(), row.rows) << row.text;
    EXPECT_EQ(rows.skipped_count, row.skipped) << row.text;
    EXPECT_EQ(rows.first_problem.empty(), row.skipped == 0) << row.text;
  }
}

TEST(LabelRowsTest, ClipsToThePicture) {
  LabelBox box;
  ASSERT_TRUE(ToPixels({0, 0.0, 0.5, 0.5, 4.0}, {100, 50}, 2.0, box));
  EXPECT_EQ(box, (LabelBox{0, 0, 50, 100, 0}));
  EXPECT_FALSE(ToPixels({0, 1.5, 0.5, 0.2, 0.2}, {100, 50}, 1.0, box));
  EXPECT_FALSE(ToPixels({0, 0.5, 0.5, 0.0, 0.2}, {100, 50}, 1.0, box));
  EXPECT_FALSE(ToPixels({0, 0.5, 0.5, 0.2, -0.2}, {100, 50}, 1.0, box));
}

}  // namespace
}  // namespace libreyolo::data
