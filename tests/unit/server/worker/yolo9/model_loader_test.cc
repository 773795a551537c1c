// What a weights file is taken for, and what is refused.
#include "server/worker/yolo9/model_loader.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "server/worker/yolo9/upstream_keys.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/worker/yolo9/checkpoint_writer.h"
#include "tests/unit/server/worker/yolo9/golden.h"

namespace libreyolo::yolo9 {
namespace {

using ::libreyolo::testing::FailsWith;
using testing::SimpleCheckpoint;

class ModelLoaderTest : public ::testing::Test {
 protected:
  absl::StatusOr<LoadedModel> Load(const SimpleCheckpoint& content, const std::string& size = "") {
    EXPECT_OK(WriteFile(path_, testing::MakeCheckpoint(content)));
    return LoadModel(path_, size);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // A whole model under its own names, with the metadata that a saved one carries.
  static SimpleCheckpoint Whole(const NetworkConfig& config) {
    SimpleCheckpoint content;
    content.texts = {{"model_family", "yolo9"}, {"size", config.size}, {"task", "detect"}};
    content.integers = {{"nc", config.class_count}};
    const auto network = Network::Make(config);
    EXPECT_OK(network);
    for (const NamedTensor& entry : (*network)->tensors()) {
      content.tensors.emplace_back(entry.name, entry.tensor.sizes().vec());
    }
    return content;
  }
  static void Set(SimpleCheckpoint& content, const std::string& key, const std::string& value) {
    for (auto& [k, v] : content.texts) {
      if (k == key) v = value;
    }
  }
  static void ExpectMismatch(const absl::StatusOr<LoadedModel>& got,
                             std::initializer_list<const char*> parts) {
    EXPECT_THAT(got, FailsWith(reason::kWeightsMismatch));
    for (const char* part : parts) {
      EXPECT_TRUE(absl::StrContains(got.status().message(), part)) << got.status() << "\n" << part;
    }
  }

  const std::string path_ =
      absl::StrCat(::testing::TempDir(), "/model_loader_test_", getpid(), ".pt");
};

TEST_F(ModelLoaderTest, LoadsTheHandedModelOfTwoClasses) {
  LY_NEEDS_FIXTURES();
  ASSERT_OK_AND_ASSIGN(const LoadedModel model,
                       LoadModel(testing::FixturePath("ckpt/yolo9t_nc2_views.pt"), ""));
  EXPECT_EQ(model.size, "t");
  EXPECT_EQ(model.class_count, 2);
  EXPECT_EQ(model.names.size(), 2u);
  EXPECT_EQ(model.letterbox, LetterboxPad::kCenter);
  EXPECT_TRUE(model.findings.empty()) << model.findings[0];
  EXPECT_EQ(model.network->class_tower_width(), 64);
  EXPECT_FALSE(model.network->training());
  // The fixture's rule: tensor k views s(5, ...) with strides 1, 3, 7, 11 from k % 64 on.
  const auto& tensors = model.network->tensors();
  for (size_t k = 0; k < tensors.size(); k += 37) {
    if (!tensors[k].is_parameter) continue;
    EXPECT_EQ(tensors[k].tensor.flatten()[0].item<float>(),
              static_cast<float>(testing::SignedHash(5, k % 64)))
        << tensors[k].name;
  }
  const c10::InferenceMode guard;
  const at::Tensor predictions =
      model.network->ForwardEval(testing::FilledImages(1, 2, 64, 64)).predictions;
  EXPECT_EQ(predictions.sizes().vec(), (std::vector<int64_t>{2, 6, 84}));
}

TEST_F(ModelLoaderTest, TheFileDecidesTheSizeAndTensorsArrive) {
  for (const char* size : {"t", "s", "m", "c"}) {
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, Load(Whole({.size = size, .class_count = 5})));
    EXPECT_EQ(model.size, size);
    EXPECT_EQ(model.class_count, 5);
    EXPECT_EQ(model.names[4], "class_4");
    EXPECT_TRUE(model.findings.empty());
    for (const NamedTensor& entry : model.network->tensors()) {
      if (!entry.is_parameter) continue;
      ASSERT_EQ(entry.tensor.flatten()[0].item<float>(), 0.5f) << entry.name;
    }
  }
}

TEST_F(ModelLoaderTest, ARequestThatContradictsTheFileNamesBoth) {
  ExpectMismatch(Load(Whole({.size = "t"}), "s"), {"size t", "--size says s", path_.c_str()});
  EXPECT_OK(Load(Whole({.size = "t"}), "t"));
  EXPECT_THAT(Load(Whole({.size = "t"}), "x"), FailsWith(reason::kArgumentInvalid));
}

TEST_F(ModelLoaderTest, MetadataThatContradictsTheShapesIsRefused) {
  SimpleCheckpoint size = Whole({.size = "t"});
  Set(size, "size", "m");
  ExpectMismatch(Load(size), {"metadata says size m", "shapes of size t"});
  SimpleCheckpoint classes = Whole({.size = "t", .class_count = 3});
  classes.integers = {{"nc", 4}};
  ExpectMismatch(Load(classes), {"metadata says 4 classes", "tensors have 3"});
}

TEST_F(ModelLoaderTest, OtherFamiliesAndTasksAreRefused) {
  SimpleCheckpoint family = Whole({.size = "t"});
  Set(family, "model_family", "yolox");
  ExpectMismatch(Load(family), {"yolox"});
  SimpleCheckpoint task = Whole({.size = "t"});
  Set(task, "task", "segment");
  ExpectMismatch(Load(task), {"segment"});
  SimpleCheckpoint e2e = Whole({.size = "t"});
  e2e.texts.clear();
  e2e.tensors.push_back({"head.one2one_cv2.0.0.conv.weight", {1}});
  ExpectMismatch(Load(e2e), {"yolo9_e2e"});
  SimpleCheckpoint p2 = Whole({.size = "t"});
  p2.tensors.push_back({"neck.elan_up3.cv1.conv.weight", {1}});
  ExpectMismatch(Load(p2), {"yolo9_p2"});
  SimpleCheckpoint other;
  other.tensors = {{"layer1.0.conv1.weight", {1}}, {"fc.bias", {1}}};
  ExpectMismatch(Load(other), {"layer1.0.conv1.weight"});
  ExpectMismatch(Load(SimpleCheckpoint{}), {"no named tensors"});
}

TEST_F(ModelLoaderTest, AFineTuneKeepsTheWidthOfItsSource) {
  ASSERT_OK_AND_ASSIGN(const LoadedModel tuned,
                       Load(Whole({.size = "t", .class_count = 3, .class_tower_width = 80})));
  EXPECT_EQ(tuned.network->class_tower_width(), 80);
  EXPECT_EQ(tuned.class_count, 3);
  ASSERT_OK_AND_ASSIGN(const LoadedModel fresh, Load(Whole({.size = "t", .class_count = 3})));
  EXPECT_EQ(fresh.network->class_tower_width(), 64);
}

TEST_F(ModelLoaderTest, TheAuxiliaryBranchIsDropped) {
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, Load(Whole({.size = "t", .with_aux = true})));
  EXPECT_FALSE(model.network->has_aux());
  EXPECT_TRUE(model.findings.empty());
  EXPECT_EQ(model.parameter_count, 2036544);
}

TEST_F(ModelLoaderTest, ABareStateDictWithPrefixesIsRecognised) {
  SimpleCheckpoint content = Whole({.size = "s"});
  content.is_bare = true;
  for (auto& [name, shape] : content.tensors) {
    if (absl::StartsWith(name, "head.")) name = "detect." + name.substr(5);
    name = "module." + name;
  }
  content.tensors.push_back({"module.detect.dfl.conv.weight", {1, 16, 1, 1}});
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, Load(content));
  EXPECT_EQ(model.size, "s");
  EXPECT_EQ(model.class_count, 80);
  ASSERT_EQ(model.findings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(model.findings[0], "recognised by the tensors' names"));
}

TEST_F(ModelLoaderTest, MissingAndSurplusTensorsAreFindingsOtherShapesAreNot) {
  SimpleCheckpoint content = Whole({.size = "t"});
  content.tensors[0].first = "backbone.strange.weight";
  content.tensors.push_back({"backbone.elan1.extra", {3}});
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, Load(content));
  ASSERT_EQ(model.findings.size(), 2u);
  EXPECT_TRUE(absl::StrContains(model.findings[0], "backbone.conv0.conv.weight"));
  EXPECT_TRUE(absl::StrContains(model.findings[1], "2 tensors"));
  SimpleCheckpoint misshapen = Whole({.size = "t"});
  misshapen.tensors[6].second = {7, 7};
  ExpectMismatch(Load(misshapen), {"backbone.conv1.conv.weight [7, 7] instead of [32, 16, 3, 3]"});
}

TEST_F(ModelLoaderTest, LetterboxAndRectangularSizeComeFromTheMetadata) {
  SimpleCheckpoint content = Whole({.size = "t"});
  content.texts.push_back({"letterbox_pad", "Top-Left"});
  content.integers.push_back({"imgsz_h", 384});
  content.integers.push_back({"imgsz_w", 640});
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, Load(content));
  EXPECT_EQ(model.letterbox, LetterboxPad::kTopLeft);
  EXPECT_EQ(model.input_height, 384);
  EXPECT_EQ(model.input_width, 640);
  EXPECT_TRUE(model.findings.empty());
  content.texts.back().second = "CENTRE";
  ASSERT_OK_AND_ASSIGN(const LoadedModel centre, Load(content));
  EXPECT_EQ(centre.letterbox, LetterboxPad::kCenter);
  content.texts.back().second = "left";
  ASSERT_OK_AND_ASSIGN(const LoadedModel odd, Load(content));
  EXPECT_EQ(odd.letterbox, LetterboxPad::kTopLeft);
  EXPECT_EQ(odd.findings.size(), 1u);
}

TEST_F(ModelLoaderTest, AnAbsurdClassCountTakesNoMemory) {
  SimpleCheckpoint content;
  content.texts = {{"model_family", "yolo9"}, {"size", "t"}};
  content.integers = {{"nc", 2000000000}};
  content.tensors = {{"backbone.conv0.conv.weight", {16, 3, 3, 3}}};
  ExpectMismatch(Load(content), {"2000000000 classes"});
}

// The original project's name for one of ours, so that the renaming is tested on whole models.
std::string UpstreamName(const std::string& name) {
  const std::pair<const char*, const char*> layers[] = {{"backbone.conv0.", "0."},
                                                        {"backbone.conv1.", "1."},
                                                        {"backbone.elan1.", "2."},
                                                        {"backbone.down2.", "3."},
                                                        {"backbone.elan2.", "4."},
                                                        {"backbone.down3.", "5."},
                                                        {"backbone.elan3.", "6."},
                                                        {"backbone.down4.", "7."},
                                                        {"backbone.elan4.", "8."},
                                                        {"backbone.spp.", "9."},
                                                        {"neck.elan_up1.", "12."},
                                                        {"neck.elan_up2.", "15."},
                                                        {"neck.down1.", "16."},
                                                        {"neck.elan_down1.", "18."},
                                                        {"neck.down2.", "19."},
                                                        {"neck.elan_down2.", "21."},
                                                        {"head.cv2.", "22.heads.#.anchor_conv."},
                                                        {"head.cv3.", "22.heads.#.class_conv."}};
  for (const auto& [ours, theirs] : layers) {
    if (!absl::StartsWith(name, ours)) continue;
    std::string rest = name.substr(std::string(ours).size());
    std::string layer = theirs;
    if (const size_t at = layer.find('#'); at != std::string::npos) {
      layer[at] = rest[0];
      return layer + rest.substr(2);
    }
    rest = "." + rest;
    for (const auto& [from, to] : {std::pair<std::string, std::string>{".cv.", ".conv."},
                                   {".cv1.", ".conv1."},
                                   {".cv2.", ".conv2."},
                                   {".cv3.", ".conv3."},
                                   {".cv4.", ".conv4."},
                                   {".cv5.", ".conv5."},
                                   {".m.", ".bottleneck."}}) {
      for (size_t at = rest.find(from); at != std::string::npos; at = rest.find(from, at + 1)) {
        rest.replace(at, from.size(), to);
      }
    }
    return layer + rest.substr(1);
  }
  return name;
}

TEST_F(ModelLoaderTest, FilesOfTheOriginalProjectAreRenamedInMemory) {
  for (const char* size : {"t", "c"}) {
    SimpleCheckpoint content = Whole({.size = size});
    content.is_bare = true;
    for (auto& [name, shape] : content.tensors) name = UpstreamName(name);
    content.tensors.push_back({"22.heads.0.anc2vec.anc2vec.weight", {1, 16, 1, 1, 1}});
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, Load(content));
    EXPECT_EQ(model.size, size);
    EXPECT_EQ(model.letterbox, LetterboxPad::kCenter);
    ASSERT_EQ(model.findings.size(), 1u) << model.findings[1];
  }
}

TEST(UpstreamKeysTest, RenamesByLayerAndBlock) {
  const std::pair<const char*, const char*> cases[] = {
      {"0.conv.weight", "backbone.conv0.conv.weight"},
      {"3.conv.bn.running_mean", "backbone.down2.cv.bn.running_mean"},
      {"4.conv2.0.bottleneck.1.conv1.conv2.conv.weight",
       "backbone.elan2.cv2.0.m.1.cv1.conv2.conv.weight"},
      {"9.conv5.bn.bias", "backbone.spp.cv5.bn.bias"},
      {"22.heads.2.class_conv.2.bias", "head.cv3.2.2.bias"},
      {"30.heads.0.anchor_conv.0.conv.weight", "aux_head.cv2.0.0.conv.weight"},
  };
  for (const auto& [theirs, ours] : cases) EXPECT_EQ(RenameUpstreamKey(theirs), ours);
  EXPECT_EQ(RenameUpstreamKey("22.heads.0.anc2vec.anc2vec.weight"), "");
  EXPECT_EQ(RenameUpstreamKey("31.conv.weight"), std::nullopt);
  EXPECT_EQ(RenameUpstreamKey("10.conv.weight"), std::nullopt);
  EXPECT_FALSE(IsUpstreamKey("backbone.conv0.conv.weight"));
}

TEST(RandomModelTest, HasTheSizeThatWasAskedFor) {
  ASSERT_OK_AND_ASSIGN(const LoadedModel small, MakeRandomModel(""));
  EXPECT_EQ(small.size, "t");
  EXPECT_EQ(small.class_count, 80);
  EXPECT_EQ(small.names.size(), 80u);
  EXPECT_EQ(small.parameter_count, 2036544);
  EXPECT_THAT(MakeRandomModel("q"), FailsWith(reason::kArgumentInvalid));
}

}  // namespace
}  // namespace libreyolo::yolo9
